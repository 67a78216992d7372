import math

import pytest
import torch
from baseline_checks import CHANNELS, randomize
from dense_formulas import mlp
from dense_graphs import (
    adjacency,
    affine,
    dense,
    draw_symmetric_graph,
    draw_weighted_graph,
    fill_loops,
    gcn_matrix,
    symmetric,
)
from scipy.special import eval_jacobi
from torch_geometric.nn import APPNP

from torch_grama.baselines import GCNII, GPRGNN, SGC, JacobiConv
from torch_grama.nn.graph_input import read_graph_input


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("sizes", "power"), [({}, 3), ({"depth": 1}, 1)])
def test_equals_the_dense_formula(weighted, sizes, power):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(SGC(5, 4, 3, 3, **sizes).double())
    matrix = torch.linalg.matrix_power(symmetric(fill_loops(dense(edge_index, weight, 9))), power)
    expected = matrix @ x @ model.conv.lin.weight.t() + model.conv.lin.bias
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula_of_gpr_gnn(weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(GPRGNN(5, 4, 3, 4).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    h = mlp(model.mlp, x)
    expected = sum(
        gamma * torch.linalg.matrix_power(matrix, k) @ h for k, gamma in enumerate(model.gamma)
    )
    torch.testing.assert_close(model(x, edge_index, weight), expected)


def test_starts_as_appnp():
    x, edge_index, weight = draw_weighted_graph()
    model = GPRGNN(5, 4, 3, 6, alpha=0.3).double()
    with torch.no_grad():
        expected = APPNP(K=6, alpha=0.3)(model.mlp(x), edge_index, weight)
        got = model(x, edge_index, weight)
    # the start is stored in single precision
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)


def test_random_start_has_absolute_sum_one():
    gamma = GPRGNN(5, 4, 3, 9, start="random").gamma
    torch.testing.assert_close(gamma.abs().sum(), torch.tensor(1.0))
    assert (gamma < 0).any()


@pytest.fixture
def graph():
    """A symmetric graph, whose matrix has an orthogonal basis."""
    x, edge_index, _ = draw_weighted_graph()
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    return x, edge_index


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.0, 1.0), (0.5, -0.5), (-0.25, 2.0)])
def test_equals_the_jacobi_polynomials_of_the_eigenvalues(graph, a, b):
    x, edge_index = graph
    model = randomize(JacobiConv(5, 4, 3, 6, a=a, b=b, factor=2.0).double())
    with torch.no_grad():
        model.eta.fill_(math.atanh(0.5))  # all factors one
    values, vectors = torch.linalg.eigh(symmetric(dense(edge_index, None, 9)))
    h = x @ model.lin.weight.t() + model.lin.bias
    expected = torch.zeros_like(h)
    for k in range(7):
        filtered = vectors * torch.from_numpy(eval_jacobi(k, a, b, values.numpy()))
        expected = expected + model.beta[k] * (filtered @ vectors.t() @ h)
    torch.testing.assert_close(model(x, edge_index), expected)


def test_factors_scale_a_polynomial_by_their_product(graph):
    """With a factor for each step, degree k gets all factors up to its own."""
    x, edge_index = graph
    model = randomize(JacobiConv(5, 4, 3, 3, a=0.0, b=0.0).double())
    gamma = (2.0 * model.eta.tanh()).tolist()
    matrix = symmetric(dense(edge_index, None, 9))
    h = x @ model.lin.weight.t() + model.lin.bias
    legendre = [
        h,
        matrix @ h,
        (3 * matrix @ matrix @ h - h) / 2,
        (5 * matrix @ matrix @ matrix @ h - 3 * matrix @ h) / 2,
    ]
    scales = [1, gamma[0], gamma[0] * gamma[1], gamma[0] * gamma[1] * gamma[2]]
    expected = sum(
        model.beta[k] * scale * p for k, (scale, p) in enumerate(zip(scales, legendre, strict=True))
    )
    torch.testing.assert_close(model(x, edge_index), expected)


def test_edge_weights_enter_the_matrix():
    x, edge_index, weight = draw_weighted_graph()
    model = randomize(JacobiConv(5, 4, 3, 1, a=1.0, b=0.5).double())
    gamma = 2.0 * model.eta[0].tanh()
    matrix = symmetric(dense(edge_index, weight, 9))
    h = x @ model.lin.weight.t() + model.lin.bias
    expected = model.beta[0] * h + model.beta[1] * gamma * (0.25 * h + 1.75 * matrix @ h)
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"theta": None, "alpha": 0.2, "residual": True}, {"act": "tanh"}]
)
def test_model_equals_its_dense_formula(options, weighted):
    model = randomize(GCNII(CHANNELS, 8, 3, 4, **options).double())
    data = draw_symmetric_graph()
    weight = data.edge_weight if weighted else None
    matrix = gcn_matrix(adjacency(data, weight))
    act = torch.tanh if options.get("act") == "tanh" else torch.relu
    alpha, theta = options.get("alpha", 0.1), options.get("theta", 0.5)
    x = first = act(affine(model.encoder.node_lin, data.x))
    for number, conv in enumerate(model.convs, start=1):
        beta = 1.0 if theta is None else math.log(theta / number + 1)
        mixed = (1 - alpha) * matrix @ x + alpha * first
        out = act((1 - beta) * mixed + beta * mixed @ conv.weight1)
        x = x + out if "residual" in options else out
    expected = model.head(x)
    torch.testing.assert_close(model(data.x, data.edge_index, weight), expected)


def test_first_state_stays_in_a_deep_model():
    # a plain graph convolution of this depth makes all nodes of a graph alike
    torch.manual_seed(0)
    data = draw_symmetric_graph(9)
    model = GCNII(CHANNELS, 8, 3, 64).double()
    graph = read_graph_input(data.num_nodes, data.edge_index)
    states = model.propagate(model.encoder.node_lin(data.x), graph)
    assert states.std(dim=0).max() > 1e-2
