import math

import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_formulas import head, layer_norm
from dense_graphs import (
    adjacency,
    affine,
    dense,
    draw_symmetric_graph,
    draw_weighted_graph,
    mean_matrix,
    symmetric,
)

from torch_grama.baselines import FAGCN, GBKGNN, CoGNN
from torch_grama.nn.graph_input import read_graph_input


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(FAGCN(5, 4, 3, 2, eps=0.4).double())
    matrix = symmetric(dense(edge_index, weight, 9))

    first = (x @ model.lin.weight.t() + model.lin.bias).clamp(min=0)
    h = first
    for conv in model.convs:
        # row i, column j: the target's own part and the part of its neighbour
        score = (h @ conv.att_r.weight.t()) + (h @ conv.att_l.weight.t()).t()
        h = 0.4 * first + (score.tanh() * matrix) @ h
    torch.testing.assert_close(model(x, edge_index, weight), head(model, h))


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


def dense_logits(network, x, matrix):
    for number, conv in enumerate(network.convs):
        x = affine(conv.lin_rel, matrix @ x) + affine(conv.lin_root, x)
        x = x.relu() if number + 1 < len(network.convs) else x
    return x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("action_layers", [1, 2])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_model_equals_its_dense_formula(aggregation, action_layers, weighted):
    data = draw_symmetric_graph(9)
    weight = data.edge_weight if weighted else None
    full = adjacency(data, weight)
    matrix = mean_matrix(full) if aggregation == "mean" else full
    kept = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = CoGNN(CHANNELS, 8, 3, 3, aggregation=aggregation, action_layers=action_layers)
        model = randomize(model.double(), seed).eval()
        x = torch.relu(affine(model.encoder.node_lin, data.x))
        for conv in model.convs:
            x = layer_norm(model.norm, x)
            listen, broadcast = (
                dense_logits(part, x, matrix) for part in (model.listen, model.broadcast)
            )
            listens = (listen[:, 0] >= listen[:, 1]).double()
            broadcasts = (broadcast[:, 0] >= broadcast[:, 1]).double()
            open_edges = listens[:, None] * broadcasts[None, :]
            kept.append(float((open_edges * (full != 0)).sum() / (full != 0).sum()))
            # the mean is over all neighbours, heard or not
            message = open_edges * matrix @ x
            x = x + torch.relu(affine(conv.lin_rel, message) + affine(conv.lin_root, x))
        expected = model.head(layer_norm(model.norm, x))
        torch.testing.assert_close(model(data.x, data.edge_index, weight), expected)
    # some layers close some edges and keep others
    assert any(0 < share < 1 for share in kept)


def test_sampled_actions_are_hard_and_follow_the_probabilities():
    torch.manual_seed(0)
    model = CoGNN(CHANNELS, 8, 3, 1).double()
    data = draw_graph(4, 0)
    x = model.encoder.node_lin(data.x).detach()
    graph = read_graph_input(4, data.edge_index)
    draws = torch.stack([model._choose(x, graph)[0].detach() for _ in range(200)])
    assert set(draws.round(decimals=9).unique().tolist()) == {0.0, 1.0}
    wanted = model.listen(x, graph).softmax(dim=1)[:, 0].detach()
    # the temperature moves the gradient, not the probability: three standard errors
    torch.testing.assert_close(draws.mean(0), wanted, rtol=0, atol=3 * 0.5 / 200**0.5)
