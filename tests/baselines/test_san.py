import math

import pytest
import torch
from baseline_checks import call, draw_graph, read_batch
from dense_formulas import affine, frame, head, prepare
from torch.nn import TransformerEncoderLayer
from torch_geometric.data import Batch

from torch_grama.baselines import SAN
from torch_grama.baselines.san import mark_absent_pairs


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_san_is_its_formula(gamma, edge_dim):
    graph = draw_graph(6, 0, edge_dim)
    model = prepare(SAN(5, 8, 3, 2, heads=2, gamma=gamma, edge_dim=edge_dim))
    real = {pair: number for number, pair in enumerate(map(tuple, graph.edge_index.t().tolist()))}
    x = affine(model.encoder.node_lin, graph.x)
    if edge_dim is None:
        edge = model.present_edge.weight.expand(len(real), -1)
    else:
        edge = affine(model.encoder.edge_lin, graph.edge_attr)
    for part, out_lin, sums in zip(model.attentions, model.out_lins, model.frames, strict=True):
        value = affine(part.value, x)
        edges, absent = affine(part.edge, edge), affine(part.absent_edge, model.absent_edge.weight)
        heads = []
        for h in range(2):
            cut = slice(4 * h, 4 * h + 4)
            own = [(j, i, edges[k, cut], 1 / (1 + gamma)) for (j, i), k in real.items()]
            top = _weighted(part.query, part.key, x, cut, own, value)
            other = [
                (j, i, absent[0, cut], gamma / (1 + gamma))
                for i in range(6)
                for j in range(6)
                if i != j and (j, i) not in real and gamma > 0
            ]
            rest = _weighted(part.absent_query, part.absent_key, x, cut, other, value)
            heads.append((top[0] + rest[0]) / (top[1] + rest[1] + 1e-6))
        x = frame(sums, x, [affine(out_lin, torch.cat(heads, -1))])
    torch.testing.assert_close(call(model, graph), head(model, x))


def _weighted(query_lin, key_lin, x, cut, edges, value):
    """The sum of the values of one head and the sum of their weights."""
    query, key = affine(query_lin, x)[:, cut], affine(key_lin, x)[:, cut]
    ones = torch.cat([value[:, cut], torch.ones_like(value[:, :1])], -1)
    top = torch.zeros_like(ones)
    for j, i, edge, factor in edges:
        score = (query[i] * key[j] * edge).sum() / math.sqrt(query.size(-1))
        top[i] += factor * score.clamp(-5, 5).exp() * ones[j]
    return top[:, :-1], top[:, -1:]


def test_absent_pairs_are_those_of_one_graph_without_an_edge():
    batch = Batch.from_data_list([draw_graph(3, 0), draw_graph(5, 1)])
    marked = mark_absent_pairs(read_batch(batch.x, batch.edge_index, batch=batch.batch))
    for b, size in enumerate((3, 5)):
        adjacency = torch.eye(5, dtype=torch.bool)
        graph = batch[b]
        adjacency[graph.edge_index[1], graph.edge_index[0]] = True
        inside = torch.zeros(5, 5, dtype=torch.bool)
        inside[:size, :size] = True
        assert torch.equal(marked[b], inside & ~adjacency)


def test_rows_in_parts_change_neither_value_nor_gradient():
    batch = Batch.from_data_list([draw_graph(6, 0), draw_graph(9, 1)])
    model = prepare(SAN(5, 8, 3, 2, gamma=0.5))
    results = []
    for max_elements in (2**25, 1, 300):
        for part in model.attentions:
            part.max_elements = max_elements
        model.zero_grad()
        out = call(model, batch)
        out.square().sum().backward()
        results.append((out.detach(), model.attentions[0].absent_key.weight.grad.clone()))
    for out, grad in results[1:]:
        torch.testing.assert_close(out, results[0][0])
        torch.testing.assert_close(grad, results[0][1])
    assert results[0][1].abs().max() > 0


def test_parameters_of_the_long_range_benchmark():
    """Published log of the benchmark: 492,718 for 4 layers of width 84 on Peptides-func."""
    model = SAN(84, 84, 10, 4, readout="graph", readout_layers=1, edge_dim=3)
    # the encoding of the Laplacian: a map and two layers of a transformer, of width 16
    encoder = 48 + 2 * sum(p.numel() for p in TransformerEncoderLayer(16, 4, 2048).parameters())
    tables = 174 * (84 - 16) + 13 * 84
    own = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if not name.startswith(("encoder.node_lin", "encoder.edge_lin"))
    )
    assert math.isclose(own + tables + encoder, 492_718, rel_tol=0.001)
