import pytest
import torch
from baseline_checks import call, draw_graph
from dense_formulas import affine, encode, frame, head, prepare, softmax_rows
from dense_graphs import adjacency

from torch_grama.baselines import GRIT


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_grit_is_its_formula(edge_dim):
    graph = draw_graph(6, 1, edge_dim)
    model = prepare(GRIT(5, 8, 3, 2, heads=2, walk_length=4, edge_dim=edge_dim))
    A = adjacency(graph)
    degree = A.sum(1)
    M = A / degree.clamp(min=1e-12)[:, None]
    walk = torch.stack([torch.linalg.matrix_power(M, k) for k in range(4)], dim=-1)
    x, edge = encode(model, graph)
    x = x + walk.diagonal().t() @ model.node_walk_lin.weight.t()
    pairs = affine(model.pair_walk_lin, walk)
    if edge is not None:
        for k, (j, i) in enumerate(graph.edge_index.t().tolist()):
            pairs[i, j] += edge[k]
    for layer, part in enumerate(model.attentions):
        query = affine(part.query_lin, x)
        key, value = (x @ lin.weight.t() for lin in (part.key_lin, part.value_lin))
        found, read = torch.zeros(6, 6, 8, dtype=torch.float64), torch.zeros_like(x)
        for i in range(6):
            for j in range(6):
                scale, shift = affine(part.pair_lin, pairs[i, j]).chunk(2)
                z = (query[i] + key[j]) * scale
                found[i, j] = (z.sign() * z.abs().sqrt() + shift).clamp(min=0)
            for h, cut in enumerate((slice(0, 4), slice(4, 8))):
                weight = softmax_rows((found[i, :, cut] @ part.score[h]).clamp(-5, 5))
                read[i, cut] = weight @ (value[:, cut] + found[i, :, cut] @ part.pair_value[h])
        read = read * (part.degree_scale[0] + (1 + degree).log()[:, None] * part.degree_scale[1])
        x = frame(model.frames[layer], x, [affine(part.out_lin, read)])
        if layer == 0:
            norm = model.pair_frames[0].norm
            pairs = pairs + affine(model.pair_frames[0].lin, found)
            pairs = (pairs - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
            pairs = pairs * norm.weight + norm.bias
    torch.testing.assert_close(call(model, graph), head(model, x))
