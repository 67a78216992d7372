import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import affine, full_attention, head, layer_norm, prepare, softmax_rows

from torch_grama.baselines import NAGphormer, nagphormer


def dense_output(model, graph, hops):
    size = graph.x.size(0)
    adjacency = torch.eye(size, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    scale = adjacency.sum(1).rsqrt()
    adjacency = scale[:, None] * adjacency * scale
    powers = [torch.linalg.matrix_power(adjacency, k) @ graph.x for k in range(hops + 1)]
    states = []
    for i in range(size):
        z = affine(model.encoder.node_lin, torch.stack([power[i] for power in powers]))
        for layer in model.layers:
            z = z + full_attention(layer.attention, layer_norm(layer.attention_norm, z))
            norm, first, _, last, _ = layer.mlp
            z = z + affine(last, F.gelu(affine(first, layer_norm(norm, z))))
        z = layer_norm(model.norm, z)
        scores = torch.stack(
            [affine(model.hop_lin, torch.cat([z[0], z[k]])) for k in range(1, hops + 1)]
        )
        states.append(z[0] + softmax_rows(scores.t()).squeeze(0) @ z[1:])
    return head(model, torch.stack(states))


@pytest.mark.parametrize("hops", [1, 4])
def test_nagphormer_is_its_formula(hops):
    graph = draw_graph(7, 0)
    model = prepare(NAGphormer(5, 8, 3, 2, hops=hops))
    torch.testing.assert_close(call(model, graph), dense_output(model, graph, hops))


def test_nodes_in_parts_change_nothing(monkeypatch):
    graph = draw_graph(11, 0)
    model = prepare(NAGphormer(5, 8, 3, 1))
    whole = call(model, graph)
    monkeypatch.setattr(nagphormer, "NODES_AT_ONCE", 4)
    torch.testing.assert_close(call(model, graph), whole)
