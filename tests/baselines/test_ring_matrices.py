import copy

import pytest
import torch
from baseline_checks import draw_graph
from het_cases import dense, distances, draw_weighted_graph, symmetric
from torch_geometric.data import Batch

from torch_grama.baselines.hop_pairs import RingMatrices


def as_matrices(rings):
    return [
        dense(torch.stack([ring.source, ring.target]), ring.value, ring.num_nodes) for ring in rings
    ]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_one_matrix_for_each_distance(cached, normalize):
    _, edge_index, _ = draw_weighted_graph()
    distance = distances(dense(edge_index, None, 9))
    rings = RingMatrices(4, cached, normalize).find(edge_index, 9, torch.float64)
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
        rings = finder.find(edge_index, 16, torch.float64, batch.batch, 3)
        for hops, matrix in enumerate(as_matrices(rings), start=1):
            assert torch.equal(matrix, (distance == hops).double())


def test_matrices_are_kept_for_the_next_step_on_the_same_graph():
    _, edge_index, _ = draw_weighted_graph()
    batch = torch.zeros(9, dtype=torch.long)
    finder = RingMatrices(2, cached=True, normalize=True)
    first = finder.find(edge_index, 9, torch.float64)
    assert finder.find(edge_index, 9, torch.float64) is first
    assert finder.find(edge_index.clone(), 9, torch.float64, batch, 1) is first
    assert finder.find(edge_index, 9, torch.float32)[0].value.dtype == torch.float32
    other = finder.find(edge_index.flip(0), 9, torch.float64)
    assert not torch.equal(as_matrices(other)[0], as_matrices(first)[0])


def test_matrices_found_in_inference_mode_can_be_trained_with():
    _, edge_index, _ = draw_weighted_graph()
    finder = RingMatrices(2, cached=True, normalize=True)
    with torch.inference_mode():
        finder.find(edge_index, 9, torch.float64)
    x = torch.ones(9, 2, dtype=torch.float64, requires_grad=True)
    finder.find(edge_index, 9, torch.float64)[1].propagate(x).sum().backward()
    assert x.grad.abs().sum() > 0


def test_copies_start_empty_and_find_the_same():
    _, edge_index, _ = draw_weighted_graph()
    finder = RingMatrices(2, cached=True, normalize=True)
    rings = finder.find(edge_index, 9, torch.float64)
    other = copy.deepcopy(finder)
    assert other.memo is not finder.memo
    again = other.find(edge_index, 9, torch.float64)
    assert again is not rings
    for one, two in zip(as_matrices(again), as_matrices(rings), strict=True):
        assert torch.equal(one, two)


def test_no_pairs_at_any_distance():
    for cached in (True, False):
        rings = RingMatrices(3, cached, True).find(
            torch.zeros(2, 0, dtype=torch.long), 2, torch.float64
        )
        assert [ring.value.numel() for ring in rings] == [0, 0, 0]
