import math

import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, draw_weighted_graph, symmetric

from torch_grama.baselines import FAGCN, GBKGNN


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(FAGCN(5, 4, 3, 2, eps=0.4).double())
    matrix = symmetric(dense(edge_index, weight, 9))

    first = (x @ model.lin.weight.t() + model.lin.bias).clamp(min=0)
    h = first
    for conv in model.convs:
        # row i, column j: the target's own part and the part of its neighbour
        score = (h @ conv.att_r.weight.t()) + (h @ conv.att_l.weight.t()).t()
        h = 0.4 * first + (score.tanh() * matrix) @ h
    head = model.head.mlp.layers[0]
    expected = h @ head.weight.t() + head.bias

    torch.testing.assert_close(model(x, edge_index, weight), expected)


def layer_by_hand(conv, x, edge_index, weight):
    """Node by node and edge by edge; returns the states and the gates."""
    lifted = x @ conv.gate_lin.weight.t()
    gates = []
    for source, target in edge_index.t().tolist():
        score = conv.gate.weight[0] @ lifted[source] + conv.gate.weight[1] @ lifted[target]
        gates.append(1 / (1 + (-(score if score > 0 else 0.2 * score)).exp()))
    rows = []
    for node in range(x.size(0)):
        row = conv.root_lin.weight @ x[node] + conv.root_lin.bias
        incoming = [k for k, target in enumerate(edge_index[1].tolist()) if target == node]
        for k in incoming:
            neighbour = x[edge_index[0, k]]
            like = gates[k] * (conv.same_lin.weight @ neighbour)
            unlike = (1 - gates[k]) * (conv.different_lin.weight @ neighbour)
            row = row + (like + unlike) * weight[k] / len(incoming)
        rows.append(row)
    return torch.stack(rows), torch.stack(gates)


def run_by_hand(model, x, edge_index, weight):
    gates = []
    for place, conv in enumerate(model.convs):
        x = x.clamp(min=0) if place else x
        x, gate = layer_by_hand(conv, x, edge_index, weight)
        gates.append(gate)
    return x, gates


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_equals_the_formula_edge_by_edge(num_layers, weighted):
    x, edge_index, weight = draw_weighted_graph()
    model = randomize(GBKGNN(5, 4, 3, num_layers).double())
    got = model(x, edge_index, weight if weighted else None)
    ones = torch.ones_like(weight)
    expected, _ = run_by_hand(model, x, edge_index, weight if weighted else ones)
    torch.testing.assert_close(got, expected)


def test_auxiliary_loss_is_the_cross_entropy_of_the_gates_on_training_edges():
    x, edge_index, weight = draw_weighted_graph()
    y, mask = torch.arange(9) % 3, torch.arange(9) < 6
    model = randomize(GBKGNN(5, 4, 3, 2, gate_loss_weight=7.0).double())
    _, gates = run_by_hand(model, x, edge_index, torch.ones_like(weight))
    expected = 0.0
    for gate in gates:
        terms = [
            -math.log(gate[k].item() if y[j] == y[i] else 1 - gate[k].item())
            for k, (j, i) in enumerate(edge_index.t().tolist())
            if mask[j] and mask[i]
        ]
        expected += 7.0 * sum(terms) / len(terms)
    got = model.auxiliary_loss(y, mask, x, edge_index)
    assert got.item() == pytest.approx(expected)


def test_auxiliary_loss_without_training_edges_is_zero():
    x, edge_index, _ = draw_weighted_graph()
    y, mask = torch.zeros(9, dtype=torch.long), torch.arange(9) == 8
    assert GBKGNN(5, 4, 3, 2).double().auxiliary_loss(y, mask, x, edge_index) == 0


def test_auxiliary_loss_teaches_the_gates():
    x, edge_index, _ = draw_weighted_graph()
    y, mask = (x[:, 0] > 0).long(), torch.ones(9, dtype=torch.bool)
    torch.manual_seed(0)
    model = GBKGNN(5, 16, 2, 1, gate_loss_weight=1.0).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.auxiliary_loss(y, mask, x, edge_index)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]
