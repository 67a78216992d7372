import pytest
import torch
import torch.nn.functional as F
from baseline_checks import randomize
from dense_graphs import dense, draw_weighted_graph, drop_loops, fill_loops, symmetric

from torch_grama.baselines import MLP, ResNet


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


def by_hand(model, z, weight=None):
    """The residual MLP on given features, by the weight of its first layer if given."""
    weight = model.lin.weight if weight is None else weight
    h = F.gelu(z @ weight.t() + model.lin.bias)
    for norm, first, _, _, second, _ in model.layers:
        update = F.gelu(F.linear(F.layer_norm(h, (4,), norm.weight, norm.bias), *_pair(first)))
        h = h + F.linear(update, *_pair(second))
    h = F.layer_norm(h, (4,), model.norm.weight, model.norm.bias)
    return F.linear(h, *_pair(model.head.mlp.layers[0]))


def _pair(lin):
    return lin.weight, lin.bias


def test_equals_the_formula_of_residual_mlp():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(ResNet(5, 4, 3, 2).double())
    torch.testing.assert_close(model(x, edge_index), by_hand(model, x))


@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_features_stand_beside_the_nodes_own(weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(ResNet(5, 4, 3, 2, graph_features="sgc", num_hops=3).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    z = torch.cat([x, matrix @ matrix @ matrix @ x], dim=1)
    torch.testing.assert_close(model(x, edge_index, weight), by_hand(model, z))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_the_adjacency_matrix_stand_beside_the_nodes_own(weighted):
    x, edge_index, weight = draw_weighted_graph()
    weight = weight if weighted else None
    model = randomize(ResNet(5, 4, 3, 2, graph_features="adjacency", num_nodes=9).double())
    z = torch.cat([x, drop_loops(dense(edge_index, weight, 9))], dim=1)
    first = torch.cat([model.lin.weight, model.node_weight.t()], dim=1)
    torch.testing.assert_close(model(x, edge_index, weight), by_hand(model, z, first))
