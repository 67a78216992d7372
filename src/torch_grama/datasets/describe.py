"""What a data set holds: on one screen, and beside what is published about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import homophily, is_undirected

from torch_grama.datasets.compact import CompactGraphs, edges_of
from torch_grama.datasets.entry import Published
from torch_grama.datasets.errors import escaped, shown
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, is_known
from torch_grama.runs.words import format_count

_WIDTH = 100
_SHOWN = 8
_ONE_WAY = "one way only: the graph is directed, and no message flows back."
_NEGATIVE = "a weight below 0: sums of weights, by which gcn and others divide, can be near 0."
# Averages are published rounded; those of another draw of random graphs differ by a few percent.
_DRAW_TOLERANCE = 0.06


def describe(data: GraphTaskData) -> str:
    r"""Says what a data set holds: graphs, features, targets, splits, and what looks odd.

    Args:
        data (GraphTaskData): The data set.

    Returns:
        About twenty lines of plain text, without a newline at the end.
    """
    facts = _Survey(data.graphs)
    task = f"{data.level} {data.kind}"
    if data.kind == "multilabel":
        task = f"multi-label, {format_count(data.num_outputs, 'label')} per {data.level}"
    better = "higher" if data.metric.higher_is_better else "lower"
    nodes = facts.nodes
    edge_features = _features_line(data.edge_encoding, data.edge_feature_names)
    if facts.weighted:
        has_others = data.edge_encoding.kind != "none"
        edge_features = f"{edge_features}; and a weight" if has_others else "a weight"
    entries = [
        ("task", f"{task}, judged by {data.metric.name} ({better} is better)"),
        (
            "graphs",
            f"1 graph of {format_count(nodes[0], 'node')}"
            if len(nodes) == 1
            else f"{len(nodes):,} graphs of {nodes.min():,} to {nodes.max():,} nodes "
            f"({nodes.mean():.1f} on average, {nodes.sum():,} in all)",
        ),
        ("edges", _edges_line(facts)),
        ("node features", _features_line(data.node_encoding, data.feature_names)),
        ("edge features", edge_features),
        ("target", _target_line(data, facts)),
        ("splits", _splits_line(data.folds)),
    ]
    warnings = [*data.warnings, *_warnings(data, facts)]
    entries += [("note", note) for note in data.notes]
    entries += [("warning", warning) for warning in warnings] or [("warnings", "none")]
    lines = [escaped(data.name)]
    for label, text in entries:
        lines += textwrap.wrap(
            escaped(text),
            width=_WIDTH,
            initial_indent=f"  {label:<15}",
            subsequent_indent=" " * 17,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _edges_line(facts: _Survey) -> str:
    if not facts.entries:
        return "none"
    low, mean, high = facts.degrees.min(), facts.degrees.mean(), facts.degrees.max()
    degrees = f"; {low} to {high} neighbours per node, {mean:.1f} on average"
    if facts.one_way:
        return f"{facts.entries:,} directed{degrees}"
    pairs = (facts.entries - facts.loops - facts.duplicates) // 2 + facts.loops
    return f"{pairs:,} undirected ({facts.entries:,} entries of edge_index){degrees}"


def _features_line(encoding: FeatureEncoding, names: Sequence[str]) -> str:
    if encoding.kind == "none":
        return "none"
    text = format_count(encoding.num_columns, "column")
    text += f" ({encoding.kind.replace('_', ' ')})"
    if encoding.sizes:
        text += f" of {_listed([str(size) for size in encoding.sizes])} values"
    return text + (f": {_listed(names)}" if names else "")


def _target_line(data: GraphTaskData, facts: _Survey) -> str:
    y = facts.targets
    known = y[is_known(y)]
    if data.kind == "classification" and not y.is_floating_point():
        counts = torch.bincount(known, minlength=data.num_outputs).tolist()
        classes = format_count(data.num_outputs, "class", "classes")
        return f"{classes}: {_named(data, [f'{count:,}' for count in counts])}"
    if data.kind == "multilabel":
        shares = y.double().nanmean(dim=0).flatten().tolist()
        labels = format_count(data.num_outputs, "label")
        return f"{labels}: {_named(data, [f'{share:.1%}' for share in shares])}"
    quantities = format_count(data.num_outputs, "quantity", "quantities")
    if not known.numel():
        return quantities
    mean = known.double().mean()
    return f"{quantities}, {known.min():.4g} to {known.max():.4g}, mean {mean:.4g}"


def _named(data: GraphTaskData, numbers: Sequence[str]) -> str:
    names = data.class_names or tuple(map(str, range(len(numbers))))
    return _listed([f"{name} ({word})" for name, word in zip(names, numbers, strict=False)])


def _splits_line(folds: Sequence[Fold]) -> str:
    if not folds:
        return "none"
    sizes = [fold.sizes for fold in folds]
    first = " / ".join(f"{size:,}" for size in sizes[0])
    names = "train / validation / test"
    if len(folds) == 1:
        return f"{first} ({names})"
    alike = "each of" if len(set(sizes)) == 1 else "the first of"
    return f"{len(folds)} splits, {alike} {first} ({names})"


def _warnings(data: GraphTaskData, facts: _Survey) -> list[str]:
    odd = (
        (facts.one_way, "edge leads", "edges lead", _ONE_WAY),
        (facts.loops, "edge leads", "edges lead", "from a node to itself."),
        (facts.duplicates, "edge repeats", "edges repeat", "another one; each counts again."),
        (facts.isolated, "node has", "nodes have", "no neighbours."),
        (facts.negative, "edge has", "edges have", _NEGATIVE),
    )
    found = [
        f"{format_count(number, one, many)} {rest}" for number, one, many, rest in odd if number
    ]
    if facts.constant and int(facts.nodes.sum()) > 1:
        names = [data.feature_names[c] if data.feature_names else str(c) for c in facts.constant]
        what = format_count(len(names), "feature has", "features have")
        found.append(f"{what} the same value everywhere: {_listed(names)}.")
    return found + _label_warnings(data, facts)


def _label_warnings(data: GraphTaskData, facts: _Survey) -> list[str]:
    found = []
    y = facts.targets
    missing = ~is_known(y)
    unlabelled = missing.flatten(1).all(dim=1) if missing.dim() > 1 else missing
    if bool(unlabelled.any()):
        what = format_count(int(unlabelled.sum()), "item has", "items have")
        found.append(f"{what} no label, of {len(missing):,}.")
    partly = int(missing[~unlabelled].sum())
    if partly:
        found.append(
            f"{format_count(partly, 'label is', 'labels are')} not known, in items with others."
        )
    known = y[~missing]
    if len(known) > 1 and bool((known == known[0]).all()):
        found.append("All labels are the same: there is nothing to learn.")
    if data.kind != "classification" or y.is_floating_point() or not data.folds:
        return found
    for name, part in zip(PARTS, data.folds[0].parts, strict=True):
        if len(y) != (len(part) if part.dtype == torch.bool else len(data.graphs)):
            continue
        counts = torch.bincount(y[part][is_known(y[part])], minlength=data.num_outputs)
        absent = torch.nonzero(counts[: data.num_outputs] == 0).flatten().tolist()
        if absent:
            names = [data.class_names[c] if data.class_names else str(c) for c in absent]
            found.append(f"'{name}' of the first split has no item of class {_listed(names)}.")
    return found


def _listed(words: Sequence[str]) -> str:
    more = f", and {len(words) - _SHOWN:,} more" if len(words) > _SHOWN else ""
    return ", ".join(shown(word)[1:-1] for word in words[:_SHOWN]) + more


class _Survey:
    """Counts over all graphs of a data set, each looked at once."""

    def __init__(self, graphs: Iterable[Data]) -> None:
        self.loops = 0  # distinct edges from a node to itself
        self.duplicates = 0  # entries beyond the first of the same edge
        self.one_way = 0  # distinct edges whose reverse is missing
        self.isolated = 0  # nodes without an edge to or from another node
        self.entries = 0  # entries of ``edge_index``
        self.weighted = False
        self.negative = 0  # entries whose weight is below zero
        nodes: list[int] = []
        degrees: list[NDArray[np.int64]] = []
        targets: list[Tensor] = []
        least: list[Tensor] = []
        most: list[Tensor] = []
        for graph in graphs:
            count = graph.num_nodes or 0
            nodes.append(count)
            source, target = edges_of(graph).cpu().numpy()
            forward = np.unique(source * count + target)
            start, stop = np.divmod(forward, max(1, count))
            self.entries += len(source)
            self.loops += int((start == stop).sum())
            self.duplicates += len(source) - len(forward)
            self.one_way += int((~np.isin(stop * count + start, forward)).sum())
            other = source != target
            degrees.append(np.bincount(target[other], minlength=count))
            outgoing = np.bincount(source[other], minlength=count)
            self.isolated += int((degrees[-1] + outgoing == 0).sum())
            weight = graph.get("edge_weight")
            self.weighted |= weight is not None
            self.negative += 0 if weight is None else int((weight < 0).sum())
            if isinstance(graph.y, Tensor):
                targets.append(graph.y)
            if graph.x is not None and graph.x.numel():
                x = graph.x.flatten(1) if graph.x.dim() > 1 else graph.x[:, None]
                least.append(x.amin(dim=0))
                most.append(x.amax(dim=0))
        self.nodes = np.array(nodes)
        self.degrees = np.concatenate(degrees)  # entries that arrive at each node, without loops
        self.targets = torch.cat(targets) if targets else torch.zeros(0)
        self.constant: list[int] = []  # columns of ``x`` with one value everywhere
        if least:
            alike = torch.stack(least).amin(dim=0) == torch.stack(most).amax(dim=0)
            self.constant = alike.nonzero().flatten().tolist()


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
    graphs = task.graphs
    if isinstance(graphs, CompactGraphs):  # which are not expanded to be counted
        nodes, entries = int(graphs.num_nodes.sum()), int(graphs.num_edges.sum())
    else:
        nodes = sum(graph.num_nodes or 0 for graph in graphs)
        entries = sum(graph.num_edges for graph in graphs)
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
    unknown = (None, None, None)
    sizes = task.folds[0].sizes if task.folds else unknown
    for part, size, stated in zip(PARTS, sizes, published.split or unknown, strict=True):
        rows.append(_whole(part, size, stated))
    return [row for row in rows if row.measured or row.published]


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
    """Of the edges between labelled nodes the share within one class, for node classification on
    one graph.
    """
    if (task.level, task.kind, len(task.graphs)) != ("node", "classification", 1):
        return None
    graph = task.graphs[0]
    if not isinstance(graph.y, Tensor) or not graph.num_edges:
        return None
    edges = edges_of(graph)
    known = edges[:, is_known(graph.y.flatten())[edges].all(dim=0)]
    return float(homophily(known, graph.y, method="edge")) if known.numel() else None


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
