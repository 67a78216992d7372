import math

import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, draw_weighted_graph, symmetric
from scipy.special import eval_jacobi

from torch_grama.baselines import JacobiConv


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


def test_parameters_of_the_published_setting():
    """Degree ten on roman-empire, one filter for each of 18 classes."""
    model = JacobiConv(300, 64, 18, 10)
    assert sum(p.numel() for p in model.parameters()) == 301 * 18 + 10 + 11 * 18


@pytest.mark.parametrize("option", [{"a": -1.0}, {"b": -2.0}, {"factor": 0.0}])
def test_impossible_polynomials(option):
    with pytest.raises(ValueError, match=rf"'{next(iter(option))}'"):
        JacobiConv(5, 4, 3, 2, **option)
