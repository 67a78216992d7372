import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, draw_weighted_graph, fill_loops, symmetric
from torch_geometric.nn import GCNConv

from torch_grama.baselines import A3TGCN, TGCN

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
        return torch.cat([left, right], dim=1) @ lin.weight.t() + lin.bias

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


def output(model, h):
    head = model.head.mlp.layers[0]
    return h.clamp(min=0) @ head.weight.t() + head.bias


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_tgcn_equals_the_formula_step_by_step(series, num_layers, weighted):
    x, edge_index, weight = series
    weight = weight if weighted else None
    model = randomize(TGCN(2, 4, 3, num_layers).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    expected = output(model, run(model, x, matrix)[-1])
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("carry_state", [False, True])
def test_a3tgcn_equals_the_formula_step_by_step(series, carry_state):
    x, edge_index, weight = series
    model = randomize(A3TGCN(2, 4, 3, 1, seq_len=LENGTH, carry_state=carry_state).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    states = run(model, x, matrix, carry_state)
    share = model.attention.exp() / model.attention.exp().sum()
    expected = output(model, sum(a * h for a, h in zip(share, states, strict=True)))
    torch.testing.assert_close(model(x, edge_index, weight), expected)


def test_the_convolution_is_that_of_pyg(series):
    x, edge_index, weight = series
    cell = randomize(TGCN(2, 4, 3, 1).double()).cells[0]
    conv = GCNConv(2, 12).double()
    conv.lin.weight, conv.bias = cell.conv_lin.weight, cell.conv_lin.bias
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    expected = conv(x[:, 0], edge_index, weight)
    got = matrix @ x[:, 0] @ cell.conv_lin.weight.t() + cell.conv_lin.bias
    torch.testing.assert_close(got, expected)


def test_order_in_time_matters_to_tgcn(series):
    x, edge_index, _ = series
    model = randomize(TGCN(2, 4, 3, 1).double())
    assert not torch.allclose(model(x, edge_index), model(x.flip(1), edge_index))


@pytest.mark.parametrize("shape", [(9, 2), (9, LENGTH, 3), (9, 0, 2)])
def test_input_must_be_a_sequence(series, shape):
    _, edge_index, _ = series
    with pytest.raises(ValueError, match="Expected a sequence for each node"):
        TGCN(2, 4, 3, 1)(torch.zeros(shape), edge_index)


def test_attention_has_one_weight_for_each_element(series):
    x, edge_index, _ = series
    with pytest.raises(ValueError, match=r"seq_len=4 \(got 6\)"):
        A3TGCN(2, 4, 3, 1, seq_len=4).double()(x, edge_index)
