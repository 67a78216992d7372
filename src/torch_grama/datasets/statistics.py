"""What a loaded data set measures, beside what is published about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from torch_grama.datasets.compact import CompactGraphs
from torch_grama.datasets.entry import Published
from torch_grama.datasets.task_data import GraphTaskData

# Averages are published rounded; those of another draw of random graphs differ by a few percent.
_DRAW_TOLERANCE = 0.06


@dataclass(frozen=True)
class Statistics:
    r"""Measured numbers of a data set."""

    num_graphs: int  # number of graphs
    num_nodes: int  # nodes of all graphs together
    num_edges: int  # entries of ``edge_index`` of all graphs together
    # undirected edges of all graphs together, each counted once; :obj:`None` if a graph is
    # directed
    num_pairs: int | None
    num_features: int  # columns of the node features
    num_edge_features: int  # columns of the edge features
    num_outputs: int  # classes, labels or targets
    num_folds: int  # number of divisions
    split: tuple[int, int, int]  # size of the parts of the first
    # share of edges between nodes of one class, for node classification on one graph
    edge_homophily: float | None


@dataclass(frozen=True)
class Comparison:
    r"""One measured number beside the published one."""

    name: str  # what is counted
    measured: str  # the number here, in words
    published: str  # the published number, in words; empty where none is stated
    agrees: bool | None  # whether they agree; :obj:`None` where nothing is published or measured


def measure(task: GraphTaskData) -> Statistics:
    r"""Measures a data set without expanding compact graphs."""
    num_nodes, num_edges, num_pairs = _count(task.graphs)
    fold = task.folds[0]
    return Statistics(
        num_graphs=len(task.graphs),
        num_nodes=num_nodes,
        num_edges=num_edges,
        num_pairs=num_pairs,
        num_features=task.node_encoding.num_columns,
        num_edge_features=task.edge_encoding.num_columns,
        num_outputs=task.num_outputs,
        num_folds=len(task.folds),
        split=(_size(fold.train), _size(fold.val), _size(fold.test)),
        edge_homophily=_homophily(task),
    )


def compare(measured: Statistics, published: Published) -> list[Comparison]:
    r"""Sets measured numbers beside the published ones."""
    undirected = published.edges == "undirected"
    edges = measured.num_pairs if undirected else measured.num_edges
    word = "undirected edges" if undirected else "directed edges"
    graphs = measured.num_graphs
    degree = measured.num_edges / max(measured.num_nodes, 1)
    loose = not published.exact
    rows = [
        _whole("graphs", measured.num_graphs, published.num_graphs),
        _whole("nodes", measured.num_nodes, published.num_nodes),
        _whole(word, edges, published.num_edges),
        _mean("nodes per graph", _average(measured.num_nodes, graphs), published.mean_nodes, loose),
        _mean("edges per graph", _average(edges, graphs), published.mean_edges, loose),
        _mean("average degree", degree, published.mean_degree, loose),
        _mean("edge homophily", measured.edge_homophily, published.edge_homophily, loose),
        _mean("diameter", None, published.diameter, loose),
        _whole("node features", measured.num_features, published.num_features),
        _whole("edge features", measured.num_edge_features, None),
        _whole("outputs", measured.num_outputs, published.num_outputs),
        _whole("splits", measured.num_folds, published.num_folds),
    ]
    for place, part in enumerate(("train", "val", "test")):
        stated = None if published.split is None else published.split[place]
        rows.append(_whole(part, measured.split[place], stated))
    return [row for row in rows if row.measured or row.published]


def _count(graphs: Sequence[Data]) -> tuple[int, int, int | None]:
    """Nodes, entries of edge_index, and pairs where every graph is undirected."""
    if isinstance(graphs, CompactGraphs):
        edges = int(graphs.num_directed_edges().sum())
        nodes = int(graphs.num_nodes.sum())
        if graphs.layout != "directed":
            return nodes, edges, int(graphs.num_edges.sum())
        return nodes, edges, None
    nodes = edges = pairs = 0
    undirected = True
    last: Tensor | None = None
    symmetric, count = True, 0
    for graph in graphs:
        index = graph.edge_index
        nodes += graph.num_nodes or 0
        if index is None:
            continue
        edges += index.size(1)
        # Time steps share one edge_index: look at it once.
        if index is not last:
            last = index
            symmetric = is_undirected(index, num_nodes=graph.num_nodes)
            count = (index.size(1) + int((index[0] == index[1]).sum())) // 2
        undirected &= symmetric
        pairs += count
    return nodes, edges, pairs if undirected else None


def _homophily(task: GraphTaskData) -> float | None:
    if (task.level, task.kind, len(task.graphs)) != ("node", "classification", 1):
        return None
    graph = task.graphs[0]
    y, index = graph["y"], graph.edge_index
    if not isinstance(y, Tensor) or index is None or index.size(1) == 0:
        return None
    return float((y[index[0]] == y[index[1]]).double().mean())


def _average(total: int | None, graphs: int) -> float | None:
    """Nothing to average where there is one graph."""
    return None if total is None or graphs < 2 else total / graphs


def _size(part: Tensor) -> int:
    return int(part.sum()) if part.dtype == torch.bool else part.numel()


def _whole(name: str, measured: int | None, published: int | None) -> Comparison:
    agrees = None if measured is None or published is None else measured == published
    words = ["" if number is None else f"{number:,}" for number in (measured, published)]
    return Comparison(name, words[0], words[1], agrees)


def _mean(name: str, measured: float | None, published: float | None, loose: bool) -> Comparison:
    if published is None:
        return Comparison(name, "" if measured is None else f"{measured:,.2f}", "", None)
    digits = max(len(f"{published}".partition(".")[2]), 1)
    shown = f"{published:,.{digits}f}".removesuffix(".0")
    if measured is None:
        return Comparison(name, "", shown, None)
    limit = _DRAW_TOLERANCE * published if loose else 0.5001 * 10.0**-digits
    agrees = bool(np.abs(measured - published) <= limit)
    return Comparison(name, f"{measured:,.{max(digits, 2)}f}", shown, agrees)
