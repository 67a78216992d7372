import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph, randomize
from dense_formulas import affine, head, layer_norm, mlp, prepare
from dense_graphs import adjacency, dense, draw_weighted_graph, drop_loops, fill_loops, symmetric

from torch_grama.baselines import GT, MLP, GATSep, ResNet


def test_equals_the_formula():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(MLP(5, 4, 3, 3).double())
    torch.testing.assert_close(model(x, edge_index), mlp(model.mlp, x))


def by_hand(model, z, weight=None):
    """The residual MLP on given features, by the weight of its first layer if given."""
    weight = model.lin.weight if weight is None else weight
    h = F.gelu(z @ weight.t() + model.lin.bias)
    for norm, first, _, _, second, _ in model.layers:
        update = F.gelu(affine(first, F.layer_norm(h, (4,), norm.weight, norm.bias)))
        h = h + affine(second, update)
    h = F.layer_norm(h, (4,), model.norm.weight, model.norm.bias)
    return head(model, h)


def test_equals_the_formula_of_residual_mlp():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(ResNet(5, 4, 3, 2).double())
    torch.testing.assert_close(model(x, edge_index), by_hand(model, x))


@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_features_stand_beside_the_nodes_own(weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(ResNet(5, 4, 3, 2, graph_features="sgc", num_hops=3).double())
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    z = torch.cat([x, matrix @ matrix @ matrix @ x], dim=1)
    torch.testing.assert_close(model(x, edge_index, weight), by_hand(model, z))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_the_adjacency_matrix_stand_beside_the_nodes_own(weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(ResNet(5, 4, 3, 2, graph_features="adjacency", num_nodes=9).double())
    z = torch.cat([x, drop_loops(dense(edge_index, weight, 9))], dim=1)
    first = torch.cat([model.lin.weight, model.node_weight.t()], dim=1)
    torch.testing.assert_close(model(x, edge_index, weight), by_hand(model, z, first))


def test_gat_sep_is_its_formula():
    graph = draw_graph(7, 0)
    model = prepare(GATSep(5, 8, 3, 2, heads=2))
    x = F.gelu(affine(model.encoder.node_lin, graph.x))
    matrix = adjacency(graph)
    for layer in model.layers:
        z = affine(layer.lin, layer_norm(layer.norm, x))
        scores = affine(layer.target_lin, z)[:, None] + (z @ layer.source_lin.weight.t())[None]
        weight = F.leaky_relu(scores, 0.2).exp() * matrix[..., None]
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1e-12)
        read = torch.einsum("ijh,jhd->ihd", weight, z.view(7, 2, 4)).flatten(1)
        hidden = F.gelu(affine(layer.mlp[0], torch.cat([z, read], dim=1)))
        x = x + affine(layer.mlp[3], hidden)
    torch.testing.assert_close(call(model, graph), head(model, layer_norm(model.norm, x)))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_gt_is_its_formula(separate, edge_dim):
    graph = draw_graph(7, 0, edge_dim)
    model = prepare(GT(5, 8, 3, 2, heads=2, separate=separate, edge_dim=edge_dim))
    x = F.gelu(affine(model.encoder.node_lin, graph.x))
    matrix = adjacency(graph) if separate else fill_loops(adjacency(graph))
    # [i, j, F]: the state of the edge from j to i
    edge = torch.zeros(7, 7, 8, dtype=torch.float64)
    if edge_dim is not None:
        edge[graph.edge_index[1], graph.edge_index[0]] = affine(
            model.encoder.edge_lin, graph.edge_attr
        )
    for layer in model.layers:
        z = layer_norm(layer.attention_norm, x)
        part = layer.attention
        query, key, value = (
            affine(lin, z) for lin in (part.lin_query, part.lin_key, part.lin_value)
        )
        shift = 0 if edge_dim is None else affine(part.lin_edge, edge)
        keys, values = key[None] + shift, value[None] + shift
        messages = []
        for h in range(2):
            cut = slice(4 * h, 4 * h + 4)
            scores = (query[:, None, cut] * keys[..., cut]).sum(-1) / math.sqrt(4)
            weight = scores.exp() * matrix
            weight = weight / weight.sum(1, keepdim=True)
            messages.append((weight[..., None] * values[..., cut]).sum(1))
        message = torch.cat(messages, -1)
        if separate:
            message = torch.cat([z, message], -1)
        x = x + affine(layer.out_lin, message)
        norm, first, _, _, last, _ = layer.mlp
        x = x + affine(last, F.gelu(affine(first, layer_norm(norm, x))))
    expected = head(model, layer_norm(model.norm, x))
    torch.testing.assert_close(call(model, graph), expected)
