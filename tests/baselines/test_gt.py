import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import affine, head, layer_norm, prepare

from torch_grama.baselines import GT


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_gt_is_its_formula(separate, edge_dim):
    graph = draw_graph(7, 0, edge_dim)
    model = prepare(GT(5, 8, 3, 2, heads=2, separate=separate, edge_dim=edge_dim))
    x = F.gelu(affine(model.encoder.node_lin, graph.x))
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    if not separate:
        adjacency.fill_diagonal_(1)
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
            weight = scores.exp() * adjacency
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


def test_a_node_without_neighbours_reads_itself_or_nothing():
    graph = draw_graph(3, 0)
    graph.edge_index = graph.edge_index[:, :0]
    for separate in (False, True):
        assert call(GT(5, 8, 3, 1, separate=separate).double(), graph).isfinite().all()
