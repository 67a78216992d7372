import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, draw_weighted_graph, fill_loops, symmetric
from torch_geometric.nn import APPNP

from torch_grama.baselines import GPRGNN


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(GPRGNN(5, 4, 3, 4).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    first, second = model.mlp.lins
    h = (x @ first.weight.t() + first.bias).clamp(min=0) @ second.weight.t() + second.bias
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


def test_dropout_before_the_propagation():
    x, edge_index, _ = draw_weighted_graph()
    model = GPRGNN(5, 4, 3, 2, propagation_dropout=0.5).double()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))


def test_parameters_of_the_published_setting():
    """Ten hops and width 64 on roman-empire."""
    model = GPRGNN(300, 64, 18, 10)
    assert sum(p.numel() for p in model.parameters()) == 301 * 64 + 65 * 18 + 11


@pytest.mark.parametrize(
    ("option", "message"), [({"alpha": 1.5}, "'alpha'"), ({"start": "pprr"}, "'ppr', 'random'")]
)
def test_impossible_starts(option, message):
    with pytest.raises(ValueError, match=message):
        GPRGNN(5, 4, 3, 2, **option)
