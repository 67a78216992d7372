"""What a loaded data set measures, beside what is published about it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import homophily, is_undirected

from torch_grama.datasets.compact import CompactGraphs
from torch_grama.datasets.entry import Published
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.task_data import GraphTaskData

# Averages are published rounded; those of another draw of random graphs differ by a few percent.
_DRAW_TOLERANCE = 0.06


@dataclass(frozen=True)
class Comparison:
    r"""One measured number beside the published one."""

    name: str  # what is counted
    measured: str  # the number here, in words
    published: str = ""  # the published number, in words; empty where none is stated
    agrees: bool | None = None  # whether they agree; none where one of them is missing


def compare(task: GraphTaskData, published: Published | None = None) -> list[Comparison]:
    r"""Sets what a data set measures beside what is published about it."""
    published = published or Published(num_folds=None)
    count = len(task.graphs)
    nodes, entries = _count(task)
    pairs = published.edges == "undirected"
    edges = _count_pairs(task) if pairs else entries
    several = count > 1  # there is nothing to average where there is one graph
    means = {
        "nodes per graph": (nodes / count if several else None, published.mean_nodes),
        "edges per graph": (
            edges / count if several and edges is not None else None,
            published.mean_edges,
        ),
        "average degree": (entries / max(nodes, 1), published.mean_degree),
        "edge homophily": (_homophily(task), published.edge_homophily),
        "diameter": (None, published.diameter),
    }
    rows = [
        _whole("graphs", count, published.num_graphs),
        _whole("nodes", nodes, published.num_nodes),
        _whole("undirected edges" if pairs else "directed edges", edges, published.num_edges),
        *(_mean(name, *numbers, loose=not published.exact) for name, numbers in means.items()),
        _whole("node features", task.node_encoding.num_columns, published.num_features),
        _whole("edge features", task.edge_encoding.num_columns),
        _whole("outputs", task.num_outputs),
        _whole("splits", len(task.folds), published.num_folds),
    ]
    for part, stated in zip(PARTS, published.split or (None, None, None), strict=True):
        sizes = [part_size(getattr(fold, part)) for fold in task.folds[:1]]
        rows.append(_whole(part, sizes[0] if sizes else None, stated))
    return [row for row in rows if row.measured or row.published]


def part_size(part: Tensor) -> int:
    r"""How many items a part of a fold has: a mask over nodes, or the numbers of graphs."""
    return int(part.sum()) if part.dtype == torch.bool else part.numel()


def _count(task: GraphTaskData) -> tuple[int, int]:
    """Nodes and entries of ``edge_index`` of all graphs; compact ones are not expanded."""
    graphs = task.graphs
    if isinstance(graphs, CompactGraphs):
        return int(graphs.num_nodes.sum()), int(graphs.num_edges.sum())
    return sum(graph.num_nodes or 0 for graph in graphs), sum(graph.num_edges for graph in graphs)


def _count_pairs(task: GraphTaskData) -> int | None:
    """Undirected edges of all graphs, each once; none where a graph is directed."""
    pairs = 0
    for graph in task.graphs:
        index = graph.edge_index
        if index is not None:
            if not is_undirected(index, num_nodes=graph.num_nodes):
                return None
            pairs += (index.size(1) + int((index[0] == index[1]).sum())) // 2
    return pairs


def _homophily(task: GraphTaskData) -> float | None:
    """The share of edges between nodes of one class, for node classification on one graph."""
    if (task.level, task.kind, len(task.graphs)) != ("node", "classification", 1):
        return None
    graph = task.graphs[0]
    if not isinstance(graph.y, Tensor) or not graph.num_edges:
        return None
    return float(homophily(graph["edge_index"], graph.y, method="edge"))


def _whole(name: str, measured: int | None, published: int | None = None) -> Comparison:
    agrees = None if measured is None or published is None else measured == published
    words = ["" if number is None else f"{number:,}" for number in (measured, published)]
    return Comparison(name, words[0], words[1], agrees)


def _mean(name: str, measured: float | None, published: float | None, loose: bool) -> Comparison:
    if published is None:
        return Comparison(name, "" if measured is None else f"{measured:,.2f}")
    digits = max(len(f"{published}".partition(".")[2]), 1)
    shown = f"{published:,.{digits}f}".removesuffix(".0")
    if measured is None:
        return Comparison(name, "", shown)
    limit = _DRAW_TOLERANCE * published if loose else 0.5001 * 10.0**-digits
    return Comparison(
        name, f"{measured:,.{max(digits, 2)}f}", shown, abs(measured - published) <= limit
    )
