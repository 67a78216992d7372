import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, draw_weighted_graph, fill_loops, symmetric

from torch_grama.baselines import SGC


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("sizes", "power"), [({}, 3), ({"depth": 1}, 1)])
def test_equals_the_dense_formula(weighted, sizes, power):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(SGC(5, 4, 3, 3, **sizes).double())
    matrix = torch.linalg.matrix_power(symmetric(fill_loops(dense(edge_index, weight, 9))), power)
    expected = matrix @ x @ model.conv.lin.weight.t() + model.conv.lin.bias
    torch.testing.assert_close(model(x, edge_index, weight), expected)
