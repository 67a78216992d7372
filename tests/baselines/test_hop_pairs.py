import networkx
import pytest
import torch
from baseline_checks import draw_graph
from het_cases import dense, distances, draw_weighted_graph
from torch_geometric.utils import to_networkx

from torch_grama.baselines import hop_pairs as module
from torch_grama.baselines.hop_pairs import hop_pairs, pairs_within


@pytest.fixture(params=["dense", "sparse"], autouse=True)
def way(request, monkeypatch):
    """Both ways to walk, whatever the size of the graph."""
    if request.param == "sparse":
        monkeypatch.setattr(module, "DENSE_NODES", -1)


def as_matrix(pairs, distance, num_nodes):
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    matrix[pairs[1], pairs[0]] = distance.double()
    return matrix


@pytest.mark.parametrize("max_hops", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_distances_are_those_of_floyd_and_warshall(seed, max_hops):
    _, edge_index, _ = draw_weighted_graph(12, seed)
    expected = distances(dense(edge_index, None, 12))
    expected[expected > max_hops] = 0

    pairs, distance = hop_pairs(edge_index, 12, max_hops)

    assert torch.equal(as_matrix(pairs, distance, 12), expected)
    assert pairs.size(1) == (expected > 0).sum()  # none twice


def test_pairs_come_in_the_order_of_distance_target_source():
    edge_index = torch.tensor([[2, 1, 1, 0], [1, 2, 0, 1]])
    pairs, distance = hop_pairs(edge_index, 3, 2)
    assert pairs.tolist() == [[1, 0, 2, 1, 2, 0], [0, 1, 1, 2, 0, 2]]
    assert distance.tolist() == [1, 1, 1, 1, 2, 2]


def test_repeated_edges_and_loops_play_no_part():
    edge_index = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 1, 2]])
    pairs, distance = hop_pairs(edge_index, 3, 2)
    assert pairs.t().tolist() == [[1, 0], [0, 1], [1, 2], [0, 2]]
    assert distance.tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_pieces_give_the_same_as_the_whole(monkeypatch, chunk):
    _, edge_index, _ = draw_weighted_graph(15, seed=3)
    expected = hop_pairs(edge_index, 15, 4)
    monkeypatch.setattr(module, "CHUNK", chunk)
    for got, wanted in zip(hop_pairs(edge_index, 15, 4), expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_in_which_all_walks_end(monkeypatch, seed, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    edge_index = torch.randint(20, (2, 18), generator=torch.Generator().manual_seed(seed))
    expected = distances(dense(edge_index, None, 20))
    expected[expected > 4] = 0
    assert torch.equal(as_matrix(*hop_pairs(edge_index, 20, 4), 20), expected)


@pytest.mark.parametrize("num_nodes", [0, 1, 4])
def test_no_edges_no_pairs(num_nodes):
    pairs, distance = hop_pairs(torch.zeros(2, 0, dtype=torch.long), num_nodes, 3)
    assert pairs.size() == (2, 0)
    assert distance.size() == (0,)


def test_walks_that_end_before_the_largest_distance():
    pairs, distance = hop_pairs(torch.tensor([[0], [1]]), 2, 5)
    assert pairs.tolist() == [[0], [1]]
    assert distance.tolist() == [1]


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("directed", [False, True])
def test_pairs_within_are_those_of_networkx(hops, directed):
    graph = draw_graph(12, 3)
    if directed:
        graph.edge_index = graph.edge_index[:, ::2]
    pairs, distance = pairs_within(graph.edge_index, 12, hops)
    found = dict(zip(map(tuple, pairs.t().tolist()), distance.tolist(), strict=True))
    assert len(found) == pairs.size(1)
    lengths = networkx.all_pairs_shortest_path_length(to_networkx(graph), cutoff=hops)
    expected = {(j, i): d for j, ends in lengths for i, d in ends.items()}
    assert found == expected


def test_no_edges_each_node_itself():
    pairs, distance = pairs_within(torch.zeros(2, 0, dtype=torch.long), 3, 2)
    assert pairs.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert distance.tolist() == [0, 0, 0]
