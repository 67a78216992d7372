import dataclasses
import json
import math

import networkx as nx
import pytest
import torch
from analysis_graphs import MessagePassingStack, graph, grid_edges, path_edges
from coefficient_strategies import quick, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_grama.analysis import (
    ModelInput,
    effective_resistance,
    influence_by_resistance,
    read_input,
)


@settings(quick, max_examples=25)
@given(seeds, st.integers(2, 9), st.integers(0, 20))
def test_resistance_equals_networkx(seed, num_nodes, num_edges):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    plain = nx.Graph()
    plain.add_nodes_from(range(num_nodes))
    plain.add_edges_from(edge_index.T.tolist())
    plain.remove_edges_from(list(nx.selfloop_edges(plain)))
    found = effective_resistance(edge_index, num_nodes, torch.tensor([0]))[0]
    part = nx.node_connected_component(plain, 0)
    for node in range(num_nodes):
        if node not in part:
            assert found[node] == math.inf
        else:
            inside = plain.subgraph(part)
            expected = nx.resistance_distance(inside, 0, node) if node else 0
            assert float(found[node]) == pytest.approx(expected, abs=1e-9)


def test_series_and_parallel():
    path = effective_resistance(path_edges(5), 5, torch.tensor([1]))
    assert torch.allclose(path, torch.tensor([[1.0, 0, 1, 2, 3]]).double(), atol=1e-9)
    conductance = torch.tensor([4.0])
    one = effective_resistance(torch.tensor([[0], [1]]), 2, torch.tensor([0]), conductance)
    assert float(one[0, 1]) == pytest.approx(0.25)


def test_projections_agree_with_the_inverse():
    edges = torch.cat([grid_edges(7), path_edges(3) + 49], dim=1)  # and a second component
    nodes = torch.tensor([0, 24, 50])
    exact = effective_resistance(edges, 52, nodes)
    found = effective_resistance(edges, 52, nodes, exact=False, num_projections=4000)
    assert torch.equal(torch.isinf(found), torch.isinf(exact))
    finite = torch.isfinite(exact)
    assert torch.allclose(found[finite], exact[finite], rtol=0.12, atol=1e-6)
    again = effective_resistance(edges, 52, nodes, exact=False, num_projections=8, seed=3)
    same = effective_resistance(edges, 52, nodes, exact=False, num_projections=8, seed=3)
    assert torch.equal(again, same)


def test_influence_falls_with_resistance_on_a_path():
    """On a path resistance is distance, so that the bins can be counted by hand."""
    model = MessagePassingStack(3)
    found = influence_by_resistance(model, graph(9), num_samples=9, num_bins=4)
    assert found.exact
    assert sum(found.num_pairs) == 9 * 8
    assert found.edges[0] == 1
    assert found.edges[-1] == 8
    assert found.mean[0] > found.mean[1] > found.mean[-1] == 0
    assert found.correlation < -0.9
    estimated = influence_by_resistance(model, graph(9), num_samples=9, num_bins=4, exact=False)
    assert not estimated.exact
    assert estimated.correlation < -0.5
    json.dumps(dataclasses.asdict(found), allow_nan=False)


def test_pairs_of_different_graphs_are_left_out():
    inputs = read_input([graph(3), graph(4)])
    found = influence_by_resistance(MessagePassingStack(2), inputs, num_samples=12)
    assert sum(found.num_pairs) == 12 * (2 + 3)
    alone = ModelInput(torch.ones(2, 1), torch.zeros(2, 0, dtype=torch.long))
    nothing = influence_by_resistance(MessagePassingStack(2), alone)
    assert (nothing.edges, nothing.mean, nothing.correlation) == ([], [], 0.0)
    pair = ModelInput(torch.ones(2, 1), path_edges(2))
    assert influence_by_resistance(MessagePassingStack(2), pair).mean == [4.0]


def test_unusable_arguments():
    with pytest.raises(ValueError, match=r"conductances \(got 0\)"):
        effective_resistance(path_edges(2), 2, torch.tensor([0]), torch.zeros(2))
    with pytest.raises(ValueError, match="'num_projections' to be at least 1"):
        effective_resistance(path_edges(2), 2, torch.tensor([0]), num_projections=0)
