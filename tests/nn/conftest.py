"""Small graphs written out by hand, in float64."""

import pytest
import torch
from torch_geometric.data import Batch, Data


@pytest.fixture(autouse=True)
def seed(one_thread):
    torch.manual_seed(0)


def _graph(num_nodes, edges):
    edge_index = torch.tensor(edges).t().reshape(2, -1)
    num_edges = edge_index.size(1)
    return Data(
        x=torch.randn(num_nodes, 5, dtype=torch.float64),
        edge_index=edge_index,
        edge_weight=torch.rand(num_edges, dtype=torch.float64) + 0.5,
        edge_attr=torch.randn(num_edges, 3, dtype=torch.float64),
    )


@pytest.fixture
def path(seed):
    """Four nodes in a line, six edges."""
    return _graph(4, [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]])


@pytest.fixture
def directed(seed):
    """A directed cycle of four nodes, a chord, a self-loop, and a fifth node that only receives."""
    return _graph(5, [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 1], [3, 4]])


@pytest.fixture
def with_isolated(seed):
    """One edge there and back, and a node without any."""
    return _graph(3, [[0, 2], [2, 0]])


@pytest.fixture
def graphs(path, directed, with_isolated):
    """Three graphs of different sizes."""
    return [path, directed, with_isolated]


@pytest.fixture
def batch(graphs):
    """The three graphs as one batch of twelve nodes."""
    return Batch.from_data_list(graphs)
