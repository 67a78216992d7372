import pytest
import torch
from baseline_checks import randomize
from directed_graphs import dense, draw_weighted_graph, symmetric

from torch_grama.baselines import FAGCN


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


def test_parameters_of_the_published_setting():
    """Width 32 on roman-empire, two layers: each layer has one vector for each end of an edge."""
    model = FAGCN(300, 32, 18, 2)
    expected = (300 + 1) * 32 + 2 * 2 * 32 + (32 + 1) * 18
    assert sum(p.numel() for p in model.parameters()) == expected
