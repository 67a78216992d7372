"""How a data set was read, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.compact import edges_of
from torch_grama.datasets.errors import escaped, shown
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.statistics import part_size
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData
from torch_grama.runs.words import format_count

_WIDTH = 100
_SHOWN = 8
_ONE_WAY = "one way only: the graph is directed, and no message flows back."


def describe(data: GraphTaskData) -> str:
    r"""Says what a data set holds: graphs, features, targets, splits, and what looks odd.

    Args:
        data (GraphTaskData): The data set.

    Returns:
        About twenty lines of plain text, without a newline at the end.
    """
    facts = _Survey(data.graphs)
    kind = "flags" if data.kind == "multilabel" else data.kind
    entries = [
        (
            "task",
            f"{data.level} {kind}, judged by {data.metric.name} "
            f"({'higher' if data.metric.higher_is_better else 'lower'} is better)",
        ),
        ("graphs", _graphs_line(facts)),
        ("edges", _edges_line(facts)),
        ("node features", _features_line(data.node_encoding, data.feature_names)),
        ("edge features", _edge_features_line(data, facts)),
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


def _graphs_line(facts: _Survey) -> str:
    if len(facts.nodes) == 1:
        return f"1 graph of {format_count(facts.nodes[0], 'node')}"
    return (
        f"{len(facts.nodes):,} graphs of {facts.nodes.min():,} to {facts.nodes.max():,} nodes "
        f"({facts.nodes.mean():.1f} on average, {facts.nodes.sum():,} in all)"
    )


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


def _edge_features_line(data: GraphTaskData, facts: _Survey) -> str:
    line = _features_line(data.edge_encoding, data.edge_feature_names)
    if not facts.weighted:
        return line
    return "a weight" if data.edge_encoding.kind == "none" else f"{line}; and a weight"


def _target_line(data: GraphTaskData, facts: _Survey) -> str:
    y = facts.targets
    if data.kind == "classification" and not y.is_floating_point():
        known = y[y >= 0]
        counts = torch.bincount(known.flatten(), minlength=data.num_outputs).tolist()
        classes = format_count(data.num_outputs, "class", "classes")
        return f"{classes}: {_named(data, [f'{count:,}' for count in counts])}"
    if data.kind == "multilabel":
        shares = y.double().nanmean(dim=0).flatten().tolist()
        flags = format_count(data.num_outputs, "flag")
        return f"{flags}: {_named(data, [f'{share:.1%}' for share in shares])}"
    known = y.double()[torch.isfinite(y)]
    quantities = format_count(data.num_outputs, "quantity", "quantities")
    if not known.numel():
        return quantities
    return f"{quantities}, {known.min():.4g} to {known.max():.4g}, mean {known.mean():.4g}"


def _named(data: GraphTaskData, numbers: Sequence[str]) -> str:
    names = data.class_names or tuple(map(str, range(len(numbers))))
    return _listed([f"{name} ({word})" for name, word in zip(names, numbers, strict=False)])


def _splits_line(folds: Sequence[Fold]) -> str:
    if not folds:
        return "none"
    sizes = [tuple(part_size(part) for part in fold.parts) for fold in folds]
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
    missing = torch.isnan(y) if y.is_floating_point() else y < 0
    unlabelled = missing.flatten(1).all(dim=1) if missing.dim() > 1 else missing
    if bool(unlabelled.any()):
        what = format_count(int(unlabelled.sum()), "item has", "items have")
        found.append(f"{what} no label, of {len(missing):,}.")
    partly = int(missing[~unlabelled].sum())
    if partly:
        found.append(
            f"{format_count(partly, 'label is', 'labels are')} not known, in items with others."
        )
    if data.kind != "classification" or y.is_floating_point() or not data.folds:
        return found
    for name, part in zip(PARTS, data.folds[0].parts, strict=True):
        if len(y) != (len(part) if part.dtype == torch.bool else len(data.graphs)):
            continue
        counts = torch.bincount(y[part].flatten().clamp(min=0), minlength=data.num_outputs)
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
            self.weighted |= graph.get("edge_weight") is not None
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
