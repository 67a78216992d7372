from dataclasses import replace

import pytest
import torch
from made_task import made_task
from torch_geometric.data import Data

from torch_grama.datasets import CompactGraphs, Fold, Published
from torch_grama.datasets.describe import compare


@pytest.fixture
def one_graph():
    # 0 - 1 - 2 and a self-loop on 2; classes 0, 0, 1.
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    graph = Data(x=torch.ones(3, 4), edge_index=edge_index, y=torch.tensor([0, 0, 1]))
    masks = torch.eye(3, dtype=torch.bool)
    folds = [Fold(*masks), Fold(masks[1], masks[0] | masks[2], masks[2] & False)]
    return made_task(graph, folds=folds)


PAIRS = Published(edges="undirected")


def _measured(task, published=None):
    return {row.name: row.measured for row in compare(task, published)}


def test_one_graph(one_graph):
    found = _measured(one_graph)
    expected = {"graphs": "1", "nodes": "3", "directed edges": "5", "edge homophily": "0.60"}
    expected |= {"splits": "2", "train": "1", "val": "1", "test": "1", "outputs": "2"}
    assert {name: found[name] for name in expected} == expected
    assert _measured(one_graph, PAIRS)["undirected edges"] == "3"
    assert "train" not in _measured(replace(one_graph, folds=[]))


def test_a_fold_is_printed_by_its_sizes(one_graph):
    parts = [torch.arange(30), torch.tensor([30]), torch.tensor([], dtype=torch.long)]
    assert repr(Fold(*parts)) == "Fold(train=30, val=1, test=0)"
    shown = "folds=[Fold(train=1, val=1, test=1), Fold(train=1, val=2, test=0)]"
    assert shown in repr(one_graph)


def test_nodes_without_label_are_no_class_of_their_own():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    graph = Data(x=torch.ones(5, 2), edge_index=edges, y=torch.tensor([0, 0, 1, -1, -1]))
    assert _measured(made_task(graph))["edge homophily"] == "0.50"
    graph.y[:] = -1
    assert "edge homophily" not in _measured(made_task(graph))


@pytest.mark.parametrize("published", [None, PAIRS])
def test_compact_graphs_count_like_expanded_ones(one_graph, published):
    graphs = [one_graph.graphs[0]] * 3
    many = replace(one_graph, graphs=graphs)
    packed = replace(one_graph, graphs=CompactGraphs.from_data(graphs))
    assert _measured(many, published) == _measured(packed, published)
    assert "edge homophily" not in _measured(many)


def test_directed_graphs_have_no_pairs(one_graph):
    graph = one_graph.graphs[0].clone()
    graph.edge_index = torch.tensor([[0, 1], [1, 2]])
    assert "undirected edges" not in _measured(replace(one_graph, graphs=[graph]), PAIRS)


def test_graphs_without_edges(one_graph):
    bare = Data(x=torch.ones(2, 4), y=torch.tensor([0, 1]))
    found = _measured(replace(one_graph, graphs=[bare]), PAIRS)
    assert (found["nodes"], found["undirected edges"]) == ("2", "0")
    assert "edge homophily" not in found


def test_comparison(one_graph):
    numbers = {"num_nodes": 3, "num_edges": 4, "mean_degree": 1.67, "edge_homophily": 0.5}
    published = replace(PAIRS, **numbers, diameter=2, split=(1, None, 2))
    rows = {row.name: row for row in compare(one_graph, published)}
    agrees = {"nodes": True, "undirected edges": False, "average degree": True, "train": True}
    agrees |= {"edge homophily": False, "diameter": None, "graphs": None, "val": None}
    assert {name: rows[name].agrees for name in agrees} == agrees
    assert rows["test"].agrees is False
    assert rows["undirected edges"].measured == "3"
    assert (rows["diameter"].measured, rows["diameter"].published) == ("", "2")
    assert "nodes per graph" not in rows


@pytest.mark.parametrize(
    ("published", "exact", "agrees"),
    [(3.0, True, True), (3.1, True, False), (3.1, False, True), (3.5, False, False)],
)
def test_averages_are_rounded(one_graph, published, exact, agrees):
    many = replace(one_graph, graphs=[one_graph.graphs[0]] * 2)
    rows = compare(many, Published(mean_nodes=published, exact=exact))
    (row,) = (row for row in rows if row.name == "nodes per graph")
    assert row.agrees is agrees
