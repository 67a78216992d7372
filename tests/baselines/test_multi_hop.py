import pytest
import torch
from baseline_checks import call, draw_graph, randomize
from dense_formulas import head
from dense_graphs import dense, distances, draw_weighted_graph, drop_loops, fill_loops, symmetric
from scipy.linalg import expm
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import GDC

from torch_grama.baselines import DIGL, FSGNN, H2GCN, GraphDiffusion, MixHop


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_equals_the_dense_formula(num_layers, cached):
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(H2GCN(5, 4, 3, num_layers, cached=cached).double())
    distance = distances(dense(edge_index, None, 9))
    rings = [symmetric((distance == hops).double()) for hops in (1, 2)]

    state = (x @ model.lin.weight.t()).clamp(min=0)
    states = [state]
    for _ in range(num_layers):
        state = torch.cat([ring @ state for ring in rings], dim=1)
        states.append(state)
    torch.testing.assert_close(model(x, edge_index), head(model, torch.cat(states, dim=1)))


def test_rings_are_found_once(monkeypatch):
    x, edge_index, _ = draw_weighted_graph()
    model = H2GCN(5, 4, 3, 2).double()
    expected = model(x, edge_index)
    monkeypatch.setattr("torch_grama.baselines.hop_pairs.hop_pairs", None)
    assert torch.equal(model(x, edge_index.clone()), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("powers", [(0, 1, 2), (1, 3)])
def test_equals_the_dense_formula_of_mixhop(powers, weighted):
    x, edge_index, weight = draw_weighted_graph(weighted=weighted)
    model = randomize(MixHop(5, 4, 3, 2, powers=powers).double()).eval()
    matrix = symmetric(fill_loops(dense(edge_index, weight, 9)))
    h = x
    for conv, norm in zip(model.convs, model.norms, strict=True):
        parts = [torch.linalg.matrix_power(matrix, p) @ h @ conv.lins[p].weight.t() for p in powers]
        h = norm(torch.cat(parts, dim=1) + conv.bias).clamp(min=0)
    torch.testing.assert_close(model(x, edge_index, weight), head(model, h))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula_of_fsgnn(normalize, weighted):
    x, edge_index, weight = draw_weighted_graph()
    if not normalize:  # a loop of its own weight is no loop of weight one
        kept = edge_index[0] != edge_index[1]
        edge_index, weight = edge_index[:, kept], weight[kept]
    weight = weight if weighted else None
    model = randomize(FSGNN(5, 4, 3, 2, normalize=normalize).double())
    matrix = dense(edge_index, weight, 9)
    plain, looped = drop_loops(matrix), fill_loops(matrix)
    if normalize:
        plain, looped = symmetric(plain), symmetric(looped)
    features = [x, plain @ x, plain @ plain @ x, looped @ x, looped @ looped @ x]

    share = model.attention.exp() / model.attention.exp().sum()
    parts = []
    for place, (lin, feature) in enumerate(zip(model.lins, features, strict=True)):
        z = feature @ lin.weight.t() + lin.bias
        parts.append(share[place] * z / z.square().sum(dim=1, keepdim=True).sqrt())
    expected = head(model, torch.cat(parts, dim=1).clamp(min=0))
    torch.testing.assert_close(model(x, edge_index, weight), expected)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_equals_the_dense_formula_on_the_diffused_graph(residual, cached):
    x, edge_index, weight = draw_weighted_graph()
    diffusion = GraphDiffusion("heat", t=2.0, avg_degree=4)
    model = DIGL(5, 4, 3, 2, diffusion=diffusion, residual=residual, cached=cached)
    model = randomize(model.double()).eval()
    matrix = dense(*diffusion(edge_index, weight, 9), 9)
    h = x @ model.lin.weight.t() + model.lin.bias
    for conv, norm in zip(model.convs, model.norms, strict=True):
        update = norm(matrix @ h @ conv.lin.weight.t() + conv.bias).clamp(min=0)
        h = h + update if residual else update
    torch.testing.assert_close(model(x, edge_index, weight), model.head(h))


def test_a_word_stands_for_a_diffusion_with_default_settings():
    assert DIGL(5, 4, 3, 2).memo.compute == GraphDiffusion("ppr")
    assert DIGL(5, 4, 3, 2, diffusion="heat").memo.compute == GraphDiffusion("heat")
    with pytest.raises(ValueError, match="'diffusion'"):
        DIGL(5, 4, 3, 2, diffusion="hat")


def test_a_graph_is_diffused_once_whatever_batch_it_comes_in():
    graphs = [draw_graph(size, seed) for seed, size in enumerate((5, 7, 4))]
    model = DIGL(5, 4, 3, 2).double().eval()
    call(model, Batch.from_data_list(graphs))
    assert len(model.memo._graphs) == 3
    call(model, Batch.from_data_list(graphs[::-1]))
    assert len(model.memo._graphs) == 3


@pytest.mark.parametrize(
    ("diffusion", "arguments"),
    [
        (GraphDiffusion("ppr", alpha=0.2, avg_degree=3), {"method": "ppr", "alpha": 0.2}),
        (GraphDiffusion("heat", t=3.0, avg_degree=3), {"method": "heat", "t": 3.0}),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_transform_of_pyg(diffusion, arguments, seed):
    graph = draw_graph(12, seed)
    half = torch.rand(graph.num_edges // 2, dtype=torch.float64) + 0.5
    weight = torch.cat([half, half])
    gdc = GDC(
        diffusion_kwargs=arguments, sparsification_kwargs={"method": "threshold", "avg_degree": 3}
    )
    expected = gdc(Data(edge_index=graph.edge_index, edge_attr=weight, num_nodes=12))
    edge_index, values = diffusion(graph.edge_index, weight, 12)
    torch.testing.assert_close(
        dense(edge_index, values, 12), dense(expected.edge_index, expected.edge_attr, 12)
    )


@pytest.mark.parametrize("method", ["ppr", "heat"])
def test_equals_the_series_of_walks_where_nothing_is_dropped(method):
    _, edge_index, weight = draw_weighted_graph()
    walk = symmetric(fill_loops(dense(edge_index, weight, 9)))
    if method == "heat":
        expected = torch.from_numpy(expm(2.0 * (walk - torch.eye(9)).numpy()))
    else:
        expected = sum(0.3 * 0.7**k * torch.linalg.matrix_power(walk, k) for k in range(400))
    expected = expected / expected.sum(dim=1, keepdim=True)
    edge_index, values = GraphDiffusion(method, alpha=0.3, t=2.0, avg_degree=9)(
        edge_index, weight, 9
    )
    torch.testing.assert_close(dense(edge_index, values, 9), expected, atol=1e-8, rtol=1e-7)


def test_top_k_keeps_the_largest_for_each_receiver():
    graph = draw_graph(10, 0)
    edge_index, _ = GraphDiffusion(top_k=3)(graph.edge_index, None, 10)
    assert torch.bincount(edge_index[1], minlength=10).tolist() == [3] * 10
    full_index, values = GraphDiffusion(avg_degree=10)(graph.edge_index, None, 10)
    full = dense(full_index, values, 10)
    for node in range(10):
        kept = set(edge_index[0, edge_index[1] == node].tolist())
        assert kept == set(full[node].topk(3).indices.tolist())


def test_nodes_that_no_walk_joins_get_no_edge():
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    for diffusion in (GraphDiffusion(avg_degree=4), GraphDiffusion(top_k=4)):
        kept, _ = diffusion(edge_index, None, 4)
        assert sorted(kept.t().tolist()) == [
            [i, j] for i in range(4) for j in range(4) if i // 2 == j // 2
        ]


def test_equal_entries_are_kept_or_dropped_together():
    """On a ring all nodes are alike, so each must keep the same number."""
    ring = torch.arange(7)
    edge_index = torch.stack([ring, (ring + 1) % 7])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    kept, _ = GraphDiffusion(avg_degree=2)(edge_index, None, 7)
    assert len(torch.bincount(kept[1], minlength=7).unique()) == 1


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_graphs_without_edges(num_nodes):
    edge_index, values = GraphDiffusion()(torch.zeros(2, 0, dtype=torch.long), None, num_nodes)
    kept = dense(edge_index, values, num_nodes)
    torch.testing.assert_close(kept, torch.eye(num_nodes, dtype=torch.float64))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"method": "pprr"}, "'ppr', 'heat'"),
        ({"alpha": 0.0}, "'alpha'"),
        ({"t": -1.0}, "'t'"),
        ({"avg_degree": 0}, "'avg_degree'"),
        ({"top_k": 0}, "'top_k'"),
    ],
)
def test_impossible_settings(option, message):
    with pytest.raises(ValueError, match=message):
        GraphDiffusion(**option)


def test_graphs_that_are_too_large_for_a_dense_matrix():
    with pytest.raises(ValueError, match=r"max_nodes=5 .* \(got 6\)"):
        GraphDiffusion(max_nodes=5)(torch.zeros(2, 0, dtype=torch.long), None, 6)
