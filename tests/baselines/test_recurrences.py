import pytest
import torch
from baseline_checks import call, draw_graph, randomize
from dense_formulas import affine, encode, head, layer_norm, mlp, prepare
from dense_graphs import (
    adjacency,
    dense,
    draw_weighted_graph,
    fill_loops,
    gcn_matrix,
    symmetric,
)

from torch_grama.baselines import A3TGCN, MPSSM, SONAR, TGCN
from torch_grama.nn.graph_input import GraphInput

LENGTH = 6


@pytest.fixture
def series():
    _, edge_index, weight = draw_weighted_graph()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, LENGTH, 2, generator=generator, dtype=torch.float64)
    return x, edge_index, weight


def step(cell, x, h, matrix):
    """One step of the cell, gate by gate."""
    convolved = []
    for gate in range(3):
        rows = slice(4 * gate, 4 * gate + 4)
        convolved.append(matrix @ x @ cell.conv_lin.weight[rows].t() + cell.conv_lin.bias[rows])

    def linear(lin, left, right):
        return affine(lin, torch.cat([left, right], dim=1))

    z = torch.sigmoid(linear(cell.update_lin, convolved[0], h))
    r = torch.sigmoid(linear(cell.reset_lin, convolved[1], h))
    new = torch.tanh(linear(cell.candidate_lin, convolved[2], r * h))
    return z * h + (1 - z) * new


def run(model, x, matrix, carry_state=True):
    """The states of the last layer at all times."""
    sequence = list(x.unbind(dim=1))
    for cell in model.cells:
        h, states = torch.zeros(9, 4, dtype=torch.float64), []
        for element in sequence:
            state = step(cell, element, h, matrix)
            states.append(state)
            h = state if carry_state else h
        sequence = states
    return sequence


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_tgcn_equals_the_formula_step_by_step(series, num_layers, weighted):
    x, edge_index, weight = series
    weight = weight if weighted else None
    model = randomize(TGCN(2, 4, 3, num_layers).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    expected = head(model, run(model, x, matrix)[-1].clamp(min=0))
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("carry_state", [False, True])
def test_a3tgcn_equals_the_formula_step_by_step(series, carry_state):
    x, edge_index, weight = series
    model = randomize(A3TGCN(2, 4, 3, 1, seq_len=LENGTH, carry_state=carry_state).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    states = run(model, x, matrix, carry_state)
    share = model.attention.exp() / model.attention.exp().sum()
    expected = head(model, sum(a * h for a, h in zip(share, states, strict=True)).clamp(min=0))
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("shape", [(9, 2), (9, LENGTH, 3), (9, 0, 2)])
def test_input_must_be_a_sequence(series, shape):
    _, edge_index, _ = series
    with pytest.raises(ValueError, match="Expected a sequence for each node"):
        TGCN(2, 4, 3, 1)(torch.zeros(shape), edge_index)


def test_attention_has_one_weight_for_each_element(series):
    x, edge_index, _ = series
    with pytest.raises(ValueError, match=r"seq_len=4 \(got 6\)"):
        A3TGCN(2, 4, 3, 1, seq_len=4).double()(x, edge_index)


def test_mp_ssm_is_its_formula():
    graph = draw_graph(6, 1)
    model = prepare(MPSSM(5, 8, 3, 3, num_blocks=2))
    A = gcn_matrix(adjacency(graph))
    x = affine(model.encoder.node_lin, graph.x)
    for block in model.blocks:
        W, B = block.state_lin.weight.t(), block.in_lin.weight.t()
        # three steps written as one sum
        state = sum(
            torch.linalg.matrix_power(A, t) @ x @ B @ torch.linalg.matrix_power(W, t)
            for t in range(3)
        )
        x = x + mlp(block.mlp, layer_norm(block.norm, state))
    torch.testing.assert_close(call(model, graph), head(model, x))


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("parts", [(True, True), (False, False)])
def test_sonar_is_its_formula(edge_dim, parts):
    graph = draw_graph(6, 1, edge_dim)
    damping, forcing = parts
    options = {"epsilon": 0.5, "damping": damping, "forcing": forcing, "edge_dim": edge_dim}
    model = prepare(SONAR(5, 8, 3, 3, num_blocks=2, **options))
    x, edge = encode(model, graph)
    for block in model.blocks:
        R = torch.zeros(6, 6, dtype=torch.float64)
        for k, (j, i) in enumerate(graph.edge_index.t().tolist()):
            hidden = affine(block.source_lin, x[j]) + x[i] @ block.target_lin.weight.t()
            if edge is not None:
                hidden = hidden + edge[k] @ block.edge_lin.weight.t()
            if i != j:
                R[i, j] += affine(block.resistance_lin, hidden.clamp(min=0)).abs().item()
        scale = R.sum(1)
        scale = torch.where(scale > 0, scale.clamp(min=1e-12).rsqrt(), 0)
        L = torch.eye(6, dtype=torch.float64) - scale[:, None] * R * scale
        v = torch.zeros_like(x)
        for _ in range(3):
            change = L @ x @ block.lin.weight.t()
            if damping:
                change += affine(block.damping, x).clamp(min=0) * v
            if forcing:
                change -= mlp(block.force, x)
            v = v - 0.5 * change
            x = x + 0.5 * v
        x = mlp(block.mlp, x)
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_a_wave_without_damping_and_force_keeps_its_energy():
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    graph = GraphInput(12, torch.cat([ring, ring.flip(0)], dim=1))
    model = SONAR(1, 4, 1, 200, epsilon=0.1, damping=False, forcing=False).double()
    block = model.blocks[0]
    torch.nn.init.eye_(block.lin.weight)
    torch.nn.init.zeros_(block.resistance_lin.weight)  # all resistances alike: L is symmetric
    torch.nn.init.ones_(block.resistance_lin.bias)
    block.mlp = torch.nn.Identity()
    x = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.ones(24, dtype=torch.float64)
    sizes = []
    for steps in range(0, 200, 40):
        block.num_steps = steps
        sizes.append(float(block(x, graph, weight).detach().norm()))
    assert max(sizes) < 1.5 * sizes[0]  # a heat equation would shrink, an explicit step would grow
    assert min(sizes) > 0.2 * sizes[0]
