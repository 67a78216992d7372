import networkx as nx
import pytest
import torch
from analysis_graphs import path_edges
from coefficient_strategies import quick, seeds
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.analysis import hop_distance


@quick
@given(seeds, st.integers(1, 12), st.integers(0, 30))
def test_distances_equal_those_of_networkx(seed, num_nodes, num_edges):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    goals = torch.rand(3, num_nodes, generator=generator) < 0.3
    reverse = nx.DiGraph()
    reverse.add_nodes_from(range(num_nodes))
    reverse.add_edges_from(edge_index.flip(0).T.tolist())
    found = hop_distance(edge_index, num_nodes, goals)
    for row, goal in zip(found, goals, strict=True):
        sources = set(goal.nonzero().flatten().tolist())
        lengths = nx.multi_source_dijkstra_path_length(reverse, sources) if sources else {}
        assert row.tolist() == [lengths.get(node, -1) for node in range(num_nodes)]


def test_many_goals_are_handled_in_parts(monkeypatch):
    goals = torch.eye(9, dtype=torch.bool)
    expected = hop_distance(path_edges(9), 9, goals)
    assert torch.equal(expected, (torch.arange(9) - torch.arange(9)[:, None]).abs())
    monkeypatch.setattr("torch_grama.analysis.hops._CHUNK_NUMBERS", 20)
    assert torch.equal(hop_distance(path_edges(9), 9, goals), expected)


def test_edges_of_the_domain():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert hop_distance(nothing, 2, torch.tensor([True, False])).tolist() == [0, -1]
    assert hop_distance(nothing, 0, torch.zeros(0, dtype=torch.bool)).size() == (0,)
    with pytest.raises(ValueError, match=r"boolean of shape \[2\] or \[M, 2\] \(got torch.int64"):
        hop_distance(nothing, 2, torch.tensor([0, 1]))
