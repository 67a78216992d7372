import networkx
import pytest
import torch
from baseline_checks import draw_graph
from dense_graphs import dense, distances, draw_weighted_graph, symmetric
from torch_geometric.data import Batch
from torch_geometric.utils import to_networkx

from torch_grama.baselines import hop_pairs as module
from torch_grama.baselines.hop_pairs import RingMatrices, hop_pairs, pairs_within
from torch_grama.nn.graph_input import read_graph_input


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


def find(finder, edge_index, dtype=torch.float64, num_nodes=9, batch=None):
    return finder.find(read_graph_input(num_nodes, edge_index, batch=batch), dtype)


def as_matrices(rings):
    return [
        dense(torch.stack([ring.source, ring.target]), ring.value, ring.num_nodes) for ring in rings
    ]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_one_matrix_for_each_distance(cached, normalize):
    _, edge_index, _ = draw_weighted_graph()
    distance = distances(dense(edge_index, None, 9))
    rings = find(RingMatrices(4, cached, normalize), edge_index)
    assert len(rings) == 4
    for hops, matrix in enumerate(as_matrices(rings), start=1):
        expected = (distance == hops).double()
        torch.testing.assert_close(matrix, symmetric(expected) if normalize else expected)


@pytest.mark.parametrize("cached", [True, False])
def test_a_batch_is_never_joined(cached):
    batch = Batch.from_data_list([draw_graph(size, seed) for seed, size in enumerate((6, 1, 9))])
    distance = distances(dense(batch.edge_index, None, 16))
    finder = RingMatrices(3, cached, normalize=False)
    for edge_index in (batch.edge_index, batch.edge_index.flip(1)):
        rings = find(finder, edge_index, num_nodes=16, batch=batch.batch)
        for hops, matrix in enumerate(as_matrices(rings), start=1):
            assert torch.equal(matrix, (distance == hops).double())


def test_matrices_are_kept_for_the_next_step_on_the_same_graph():
    _, edge_index, _ = draw_weighted_graph()
    batch = torch.zeros(9, dtype=torch.long)
    finder = RingMatrices(2, cached=True, normalize=True)
    first = find(finder, edge_index)
    assert find(finder, edge_index) is first
    assert find(finder, edge_index.clone(), batch=batch) is first
    assert find(finder, edge_index, torch.float32)[0].value.dtype == torch.float32
    other = find(finder, edge_index.flip(0))
    assert not torch.equal(as_matrices(other)[0], as_matrices(first)[0])


def test_matrices_found_in_inference_mode_can_be_trained_with():
    _, edge_index, _ = draw_weighted_graph()
    finder = RingMatrices(2, cached=True, normalize=True)
    with torch.inference_mode():
        find(finder, edge_index)
    x = torch.ones(9, 2, dtype=torch.float64, requires_grad=True)
    rings = find(finder, edge_index)
    rings[1].propagate(x).sum().backward()
    torch.testing.assert_close(x.grad[:, 0], as_matrices(rings)[1].sum(0))
