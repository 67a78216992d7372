import pytest
import torch
from analysis_graphs import grama, graph, path_edges

from torch_grama.analysis import ModelInput, draw_example, influence_spread
from torch_grama.analysis.example_graph import arrange_nodes


def test_a_small_graph_is_shown_as_a_whole():
    model, inputs = grama(), graph(5)
    found = draw_example(model, inputs, graph=7)
    assert found.graph == 7
    assert sorted(found.nodes) == [0, 1, 2, 3, 4]
    assert found.nodes[0] == 1  # the first of those with the most edges
    pairs = {frozenset((found.nodes[a], found.nodes[b])) for a, b in found.edges}
    assert pairs == {frozenset((i, i + 1)) for i in range(4)}
    assert len(found.edges) == 4
    assert found.sources == [0, 1, 2, 3, 4]
    assert len(found.labels) == 7
    for source in found.sources:
        expected = influence_spread(model, inputs, found.nodes[source])[:, found.nodes]
        got = torch.tensor(found.spread[source], dtype=torch.float64)
        assert torch.allclose(got, expected, rtol=1e-2)


def test_of_a_large_graph_the_surroundings_are_shown():
    model, inputs = grama(), graph(30)
    found = draw_example(model, inputs, source=20, max_nodes=7, max_numbers=150, num_probes=1)
    assert sorted(found.nodes) == list(range(17, 24))
    assert found.nodes[0] == 20
    assert len(found.sources) == 150 // (7 * 7)
    assert len(found.edges) == 6
    assert found.num_probes == 1
    assert draw_example(model, inputs, max_nodes=5, max_sources=1).sources == [0]


def test_loops_doubles_and_lonely_nodes():
    edge_index = torch.tensor([[0, 1, 0, 2], [1, 0, 1, 2]])
    inputs = ModelInput(torch.randn(4, 3).double(), edge_index)
    found = draw_example(grama(), inputs)
    assert found.edges == [[0, 1]]
    assert len(found.nodes) == 4
    with pytest.raises(ValueError, match="at least one node"):
        draw_example(grama(), ModelInput(torch.zeros(0, 3), edge_index[:, :0]))


def stress(positions, hops):
    length = torch.cdist(positions, positions)
    upper = torch.triu_indices(len(hops), len(hops), 1)
    h, d = hops[tuple(upper)], length[tuple(upper)]
    scale = (d / h).sum() / (d / h).square().sum()  # the best size of the paper
    return float(((scale * d - h) / h).square().mean())


def test_a_path_is_drawn_straight_and_a_ring_round():
    path = arrange_nodes(path_edges(8), 8)
    hops = (torch.arange(8) - torch.arange(8)[:, None]).abs().double()
    assert stress(path, hops) < 0.01
    assert path.abs().max() == pytest.approx(1)
    ring = torch.stack([torch.arange(10), (torch.arange(10) + 1) % 10])
    radius = arrange_nodes(ring, 10).norm(dim=1)
    assert radius.max() / radius.min() < 1.1


def test_few_nodes_and_separate_parts():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert arrange_nodes(nothing, 0).size() == (0, 2)
    assert arrange_nodes(nothing, 1).tolist() == [[0.0, 0.0]]
    apart = arrange_nodes(torch.tensor([[0, 2], [1, 3]]), 4)
    assert torch.isfinite(apart).all()
    length = torch.cdist(apart, apart)
    assert length[0, 1] < length[0, 2]
    assert length[2, 3] < length[1, 3]
