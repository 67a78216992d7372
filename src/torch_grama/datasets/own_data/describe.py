"""What was understood of a data set, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.own_data.graph_parts import contains
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

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
    facts = survey(data)
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
        ("edge features", _edge_features_line(data.edge_encoding, facts)),
        ("target", _target_line(data, facts)),
        ("splits", _splits_line(data.folds)),
    ]
    for note in data.notes:
        entries.append(("note", note))
    warnings = _warnings(data, facts)
    for warning in warnings:
        entries.append(("warning", warning))
    if not warnings:
        entries.append(("warnings", "none"))
    lines = [data.name]
    for label, text in entries:
        lines += textwrap.wrap(
            text,
            width=_WIDTH,
            initial_indent=f"  {label:<15}",
            subsequent_indent=" " * 17,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _graphs_line(facts: Survey) -> str:
    if len(facts.nodes) == 1:
        return f"1 graph of {facts.nodes[0]:,} nodes"
    return (
        f"{len(facts.nodes):,} graphs of {facts.nodes.min():,} to {facts.nodes.max():,} nodes "
        f"({facts.nodes.mean():.1f} on average, {facts.nodes.sum():,} in all)"
    )


def _edges_line(facts: Survey) -> str:
    entries = int(facts.edges.sum())
    low, mean, high = facts.degrees
    degrees = f"; {low} to {high} neighbours a node, {mean:.1f} on average"
    if not entries:
        return "none"
    if facts.one_way:
        return f"{entries:,} directed{degrees}"
    pairs = (entries - facts.loops - facts.duplicates) // 2 + facts.loops
    return f"{pairs:,} undirected ({entries:,} entries of edge_index){degrees}"


def _features_line(encoding: FeatureEncoding, names: Sequence[str]) -> str:
    if encoding.kind == "none":
        return "none"
    text = _count(encoding.num_columns, "column", "columns")
    text += f" ({encoding.kind.replace('_', ' ')})"
    if encoding.sizes:
        text += f" of {_listed([str(size) for size in encoding.sizes])} values"
    return text + (f": {_listed(names)}" if names else "")


def _edge_features_line(encoding: FeatureEncoding, facts: Survey) -> str:
    if not facts.weighted:
        return _features_line(encoding, ())
    return "a weight" if encoding.kind == "none" else f"{_features_line(encoding, ())}, a weight"


def _target_line(data: GraphTaskData, facts: Survey) -> str:
    y = facts.targets
    if data.kind == "classification" and not y.is_floating_point():
        known = y[y >= 0]
        counts = torch.bincount(known.flatten(), minlength=data.num_outputs).tolist()
        names = data.class_names or tuple(map(str, range(len(counts))))
        shown = _listed([f"{name} ({count:,})" for name, count in zip(names, counts, strict=False)])
        return f"{data.num_outputs} classes: {shown}"
    if data.kind == "multilabel":
        known = y[~torch.isnan(y).any(dim=1)] if y.is_floating_point() and y.dim() == 2 else y
        shares = known.double().mean(dim=0).flatten().tolist()
        names = data.class_names or tuple(map(str, range(len(shares))))
        shown = _listed(
            [f"{name} ({share:.1%})" for name, share in zip(names, shares, strict=False)]
        )
        return f"{data.num_outputs} flags: {shown}"
    known = y.double()[torch.isfinite(y)]
    spread = (
        f", {known.min():.4g} to {known.max():.4g}, mean {known.mean():.4g}"
        if known.numel()
        else ""
    )
    return _count(data.num_outputs, "quantity", "quantities") + spread


def _splits_line(folds: Sequence[Fold]) -> str:
    if not folds:
        return "none"
    sizes = [tuple(_size(part) for part in (fold.train, fold.val, fold.test)) for fold in folds]
    first = " / ".join(f"{size:,}" for size in sizes[0])
    names = "train / validation / test"
    if len(folds) == 1:
        return f"{first} ({names})"
    alike = "each of" if len(set(sizes)) == 1 else "the first of"
    return f"{len(folds)} splits, {alike} {first} ({names})"


def _warnings(data: GraphTaskData, facts: Survey) -> list[str]:
    odd = (
        (facts.one_way, "edge leads", "edges lead", _ONE_WAY),
        (facts.loops, "edge leads", "edges lead", "from a node to itself."),
        (facts.duplicates, "edge repeats", "edges repeat", "another one; each counts again."),
        (facts.isolated, "node has", "nodes have", "no neighbours."),
    )
    found = [f"{_count(number, one, many)} {rest}" for number, one, many, rest in odd if number]
    low, high = facts.columns
    constant = torch.nonzero(low == high).flatten().tolist()
    if constant and int(facts.nodes.sum()) > 1:
        names = [data.feature_names[c] if data.feature_names else str(c) for c in constant]
        what = _count(len(names), "feature has", "features have")
        found.append(f"{what} the same value everywhere: {_listed(names)}.")
    return found + _label_warnings(data, facts)


def _label_warnings(data: GraphTaskData, facts: Survey) -> list[str]:
    found = []
    y = facts.targets
    missing = torch.isnan(y) if y.is_floating_point() else y < 0
    missing = missing.flatten(1).any(dim=1) if missing.dim() > 1 else missing
    if bool(missing.any()):
        what = _count(int(missing.sum()), "item has", "items have")
        found.append(f"{what} no label, of {len(missing):,}.")
    if data.kind != "classification" or y.is_floating_point() or not data.folds:
        return found
    for name in ("train", "val", "test"):
        part = getattr(data.folds[0], name)
        if len(y) != (len(part) if part.dtype == torch.bool else len(data.graphs)):
            continue
        counts = torch.bincount(y[part].flatten().clamp(min=0), minlength=data.num_outputs)
        absent = torch.nonzero(counts[: data.num_outputs] == 0).flatten().tolist()
        if absent:
            names = [data.class_names[c] if data.class_names else str(c) for c in absent]
            found.append(f"'{name}' of the first split has no item of class {_listed(names)}.")
    return found


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _size(part: Tensor) -> int:
    return int(part.sum()) if part.dtype == torch.bool else part.numel()


def _listed(words: Sequence[str]) -> str:
    more = f", and {len(words) - _SHOWN:,} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


@dataclass(frozen=True)
class Survey:
    r"""Counts over all graphs of a data set."""

    nodes: NDArray[np.int64]  # number of nodes of each graph
    edges: NDArray[np.int64]  # number of entries of ``edge_index`` of each graph
    loops: int  # distinct edges from a node to itself
    duplicates: int  # entries beyond the first of the same edge
    one_way: int  # distinct edges whose reverse is missing
    isolated: int  # nodes without an edge to or from another node
    # least, mean and greatest number of entries that arrive at a node, without loops
    degrees: tuple[int, float, int]
    weighted: bool  # whether the edges have a weight
    targets: Tensor  # ``y`` of all graphs, one after the other
    columns: tuple[Tensor, Tensor]  # least and greatest value of each column of ``x``


def survey(data: GraphTaskData) -> Survey:
    r"""Counts what there is, looking at every graph once."""
    nodes, edges, targets = [], [], []
    loops = duplicates = isolated = one_way = 0
    degrees = [np.zeros(0, dtype=np.int64)]
    columns: tuple[Tensor, Tensor] | None = None
    weighted = False
    for graph in data.graphs:
        count = graph.num_nodes or 0
        ends = np.zeros((2, 0)) if graph.edge_index is None else graph.edge_index.cpu().numpy()
        source, target = ends.astype(np.int64)
        keys = np.sort(source * count + target)
        forward = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        start, stop = np.divmod(forward, max(1, count))
        loops += int((start == stop).sum())
        duplicates += len(keys) - len(forward)
        one_way += int((~contains(forward, stop * count + start)).sum())
        other = source != target
        degree = np.bincount(target[other], minlength=count)
        degrees.append(degree)
        isolated += int((degree + np.bincount(source[other], minlength=count) == 0).sum())
        nodes.append(count)
        edges.append(len(source))
        weighted |= graph.get("edge_weight") is not None
        if isinstance(graph.y, Tensor):
            targets.append(graph.y)
        columns = _widen(columns, graph)
    degree = np.concatenate(degrees)
    return Survey(
        nodes=np.array(nodes, dtype=np.int64),
        edges=np.array(edges, dtype=np.int64),
        loops=loops,
        duplicates=duplicates,
        one_way=one_way,
        isolated=isolated,
        degrees=(int(degree.min()), float(degree.mean()), int(degree.max())),
        weighted=weighted,
        targets=torch.cat(targets) if targets else torch.zeros(0),
        columns=columns or (torch.zeros(0), torch.zeros(0)),
    )


def _widen(columns: tuple[Tensor, Tensor] | None, graph: Data) -> tuple[Tensor, Tensor] | None:
    x = graph.x
    if x is None or not x.numel():
        return columns
    flat = x.flatten(1) if x.dim() > 1 else x[:, None]
    least, most = flat.amin(dim=0), flat.amax(dim=0)
    if columns is None:
        return least, most
    return torch.minimum(columns[0], least), torch.maximum(columns[1], most)
