import math

import pytest
import torch
from baseline_checks import call, draw_graph, permutation_error, read_batch
from dense_formulas import affine, encode, frame, gated_gcn, head, prepare
from torch_geometric.data import Batch
from torch_geometric.utils import is_undirected, to_dense_adj

from torch_grama.baselines import SAN, Exphormer
from torch_grama.baselines.scored_edges import expander_edges, mark_absent_pairs


def weigh(query, key, value, edges):
    """The sums over ``(j, i, e, factor)`` of the weights factor exp(clamp(q_i k_j e / sqrt(d))) of
    one head, each times v_j, and of the weights alone."""
    top, bottom = torch.zeros_like(value), torch.zeros_like(value[:, :1])
    for j, i, edge, factor in edges:
        score = (query[i] * key[j] * edge).sum() / math.sqrt(query.size(-1))
        weight = factor * score.clamp(-5, 5).exp()
        top[i] += weight * value[j]
        bottom[i] += weight
    return top, bottom


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize(("degree", "num_virtual"), [(0, 1), (2, 0), (2, 2)])
def test_exphormer_is_its_formula(edge_dim, degree, num_virtual):
    size = 12
    graph = draw_graph(size, 0, edge_dim)
    options = {"expander_degree": degree, "num_virtual_nodes": num_virtual, "edge_dim": edge_dim}
    model = prepare(Exphormer(5, 8, 3, 2, heads=2, **options))
    pairs = graph.edge_index.t().tolist()
    x, edge = encode(model, graph)
    if edge is None:
        kinds = [(j, i, model.graph_edge.weight[0]) for j, i in pairs]
    else:
        kinds = [(j, i, edge[number]) for number, (j, i) in enumerate(pairs)]
    kinds += [
        (j, i, model.expander_edge.weight[0]) for j, i in expander_edges(size, degree).t().tolist()
    ]
    for v in range(num_virtual):
        kinds += [(j, size + v, model.to_virtual.weight[v]) for j in range(size)]
        kinds += [(size + v, i, model.from_virtual.weight[v]) for i in range(size)]
    virtual = model.virtual_node.weight
    for local, part, sums in zip(model.locals, model.attentions, model.frames, strict=True):
        everyone = torch.cat([x, virtual])
        query, key, value = (affine(lin, everyone) for lin in (part.query, part.key, part.value))
        heads = []
        for cut in (slice(0, 4), slice(4, 8)):
            edges = [(j, i, affine(part.edge, kind)[cut], 1.0) for j, i, kind in kinds]
            top, bottom = weigh(query[:, cut], key[:, cut], value[:, cut], edges)
            heads.append(top / (bottom + 1e-6))
        attended = torch.cat(heads, -1)
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        x, virtual = frame(sums, x, [attended[:size], update]), attended[size:]
    torch.testing.assert_close(call(model, graph), head(model, x))


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
def test_without_an_expander_the_numbering_does_not_matter():
    assert permutation_error(Exphormer(5, 8, 3, 2, expander_degree=0), "node") < 1e-9
    assert permutation_error(Exphormer(5, 8, 3, 2, expander_degree=2), "node") > 1e-3


@pytest.mark.parametrize("num_nodes", [11, 50, 300])
@pytest.mark.parametrize("degree", [2, 3])
def test_expanders_are_nearly_regular_and_have_a_spectral_gap(num_nodes, degree):
    edges = expander_edges(num_nodes, degree)
    adjacency = to_dense_adj(edges, max_num_nodes=num_nodes)[0]
    assert is_undirected(edges)
    assert adjacency.max() == 1
    assert adjacency.diagonal().sum() == 0
    assert adjacency.sum(1).max() <= 2 * degree
    assert adjacency.sum() >= 0.6 * 2 * degree * num_nodes
    values = torch.linalg.eigvalsh(adjacency.double())
    assert values[-2] <= 2 * math.sqrt(2 * degree - 1) + 0.1


def test_small_graphs_are_complete():
    assert expander_edges(4, 3).size(1) == 12
    assert expander_edges(1, 3).size() == (2, 0)
    assert expander_edges(20, 0).size() == (2, 0)


def test_the_seed_alone_decides():
    torch.manual_seed(0)
    first = expander_edges(40, 2, seed=5)
    expander_edges.cache_clear()
    torch.manual_seed(1)
    assert torch.equal(first, expander_edges(40, 2, seed=5))
    assert not torch.equal(first, expander_edges(40, 2, seed=6))


def test_large_graphs_are_drawn_once():
    edges = expander_edges(5000, 3)
    assert 29_000 < edges.size(1) <= 30_000


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_san_is_its_formula(gamma, edge_dim):
    graph = draw_graph(6, 0, edge_dim)
    model = prepare(SAN(5, 8, 3, 2, heads=2, gamma=gamma, edge_dim=edge_dim))
    real = {pair: number for number, pair in enumerate(map(tuple, graph.edge_index.t().tolist()))}
    x, edge = encode(model, graph)
    edge = model.present_edge.weight.expand(len(real), -1) if edge is None else edge
    for part, out_lin, sums in zip(model.attentions, model.out_lins, model.frames, strict=True):
        query, key, absent_query, absent_key, value = (
            affine(lin, x)
            for lin in (part.query, part.key, part.absent_query, part.absent_key, part.value)
        )
        edges, absent = affine(part.edge, edge), affine(part.absent_edge, model.absent_edge.weight)
        heads = []
        for h in range(2):
            cut = slice(4 * h, 4 * h + 4)
            own = [(j, i, edges[k, cut], 1 / (1 + gamma)) for (j, i), k in real.items()]
            near = weigh(query[:, cut], key[:, cut], value[:, cut], own)
            other = [
                (j, i, absent[0, cut], gamma / (1 + gamma))
                for i in range(6)
                for j in range(6)
                if i != j and (j, i) not in real and gamma > 0
            ]
            far = weigh(absent_query[:, cut], absent_key[:, cut], value[:, cut], other)
            heads.append((near[0] + far[0]) / (near[1] + far[1] + 1e-6))
        x = frame(sums, x, [affine(out_lin, torch.cat(heads, -1))])
    torch.testing.assert_close(call(model, graph), head(model, x))


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
