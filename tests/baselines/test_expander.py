import math

import pytest
import torch
from torch_geometric.utils import is_undirected, to_dense_adj

from torch_grama.baselines.exphormer import expander_edges


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
