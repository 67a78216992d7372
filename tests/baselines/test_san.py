import math

import pytest
import torch
from baseline_checks import call, check_reset, draw_graph, randomize, read_batch
from dense_formulas import affine, frame, full_attention, head, layer_norm, prepare
from torch_geometric.data import Batch

from torch_grama.baselines import SAN, LaplaceEncoder
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
    encoder = LaplaceEncoder(16, method="transformer")
    tables = 174 * (84 - 16) + 13 * 84
    own = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if not name.startswith(("encoder.node_lin", "encoder.edge_lin"))
    )
    total = own + tables + sum(parameter.numel() for parameter in encoder.parameters())
    assert math.isclose(total, 492_718, rel_tol=0.001)


def test_gamma_must_not_be_negative():
    with pytest.raises(ValueError, match="'gamma'"):
        SAN(5, 8, 3, 1, gamma=-1.0)


def draw():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    values = torch.rand(5, 4, generator=generator, dtype=torch.float64)
    # a graph of two nodes has two frequencies
    vectors[:2, 2:] = float("nan")
    values[:2, 2:] = float("nan")
    return vectors, values


def pairs_of(vectors, values, node):
    known = ~vectors[node].isnan()
    return torch.stack([vectors[node, known], values[node, known]], -1)


def test_deep_set_sums_an_mlp_over_the_frequencies_that_there_are():
    encoder = randomize(LaplaceEncoder(6).double()).eval()
    vectors, values = draw()
    for node, row in enumerate(encoder(vectors, values)):
        hidden = affine(encoder.lin[0], pairs_of(vectors, values, node)).clamp(min=0)
        expected = affine(encoder.lin[2], hidden).clamp(min=0).sum(0)
        torch.testing.assert_close(row, expected)


def test_transformer_runs_over_the_frequencies_that_there_are():
    encoder = LaplaceEncoder(8, method="transformer", feedforward_channels=16)
    encoder = randomize(encoder.double()).eval()
    vectors, values = draw()
    for node, row in enumerate(encoder(vectors, values)):
        z = affine(encoder.lin[0], pairs_of(vectors, values, node))
        for layer in encoder.layers:
            z = layer_norm(layer.norm1, z + full_attention(layer.self_attn, z))
            update = affine(layer.linear2, affine(layer.linear1, z).clamp(min=0))
            z = layer_norm(layer.norm2, z + update)
        torch.testing.assert_close(row, z.sum(0))


@pytest.mark.parametrize("method", ["deep_set", "transformer"])
def test_signs_are_drawn_in_training_alone(method):
    encoder = LaplaceEncoder(8, method=method, heads=2, feedforward_channels=8).double()
    for layer in encoder.layers:
        layer.eval()  # no dropout
    vectors, values = draw()
    results = []
    for seed in range(8):
        torch.manual_seed(seed)
        results.append(encoder(vectors, values))
    assert any(not torch.allclose(results[0], other) for other in results[1:])
    encoder.eval()
    assert torch.equal(encoder(vectors, values), encoder(vectors, values))


@pytest.mark.parametrize("method", ["deep_set", "transformer"])
def test_reset(method):
    check_reset(lambda: LaplaceEncoder(16, method=method))


def test_input_and_words_are_checked():
    with pytest.raises(ValueError, match="one shape"):
        LaplaceEncoder(8)(torch.ones(3, 2), torch.ones(3, 4))
    with pytest.raises(ValueError, match="'deep_set'"):
        LaplaceEncoder(8, method="deepset")
    assert str(LaplaceEncoder(8)) == "LaplaceEncoder(8, method='deep_set')"
