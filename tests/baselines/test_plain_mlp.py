import torch
from baseline_checks import randomize
from het_cases import draw_weighted_graph

from torch_grama.baselines import MLP


def test_equals_the_formula():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(MLP(5, 4, 3, 3).double())
    first, second, third = model.mlp.lins
    h = (x @ first.weight.t() + first.bias).clamp(min=0)
    h = (h @ second.weight.t() + second.bias).clamp(min=0)
    torch.testing.assert_close(model(x, edge_index), h @ third.weight.t() + third.bias)


def test_one_layer_is_linear():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(MLP(5, 4, 3, 7, depth=1).double())
    (lin,) = model.mlp.lins
    torch.testing.assert_close(model(x, edge_index), x @ lin.weight.t() + lin.bias)


def test_sees_no_edges():
    x, edge_index, _ = draw_weighted_graph()
    model = MLP(5, 4, 3, 2).double()
    assert torch.equal(model(x, edge_index), model(x, edge_index[:, :0]))
