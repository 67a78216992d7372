"""An audit of a data set: splits, twins across them, labels, leaks and balance.

Labels are computed anew where their formula is known, which also says how far a task asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.catalogue import find
from torch_grama.datasets.compact import edges_of
from torch_grama.datasets.graph_property import shortest_paths
from torch_grama.datasets.ising import SIGMAS, couplings, local_fields
from torch_grama.datasets.range_tasks import reach_weights, task_influence
from torch_grama.datasets.raw_arrays import Array
from torch_grama.datasets.splits import PARTS, scatter_bits
from torch_grama.datasets.task_data import Fold, GraphTaskData, is_known

Verdict = Literal["ok", "note", "fault"]
Floats = NDArray[np.float64]
Matrix = Callable[[Tensor, Tensor], Tensor]
"""From the inputs ``[N, F]`` and the edges of a graph to the sizes ``[N, N]`` of the derivative of
the target of each node by the value of each."""

_ROUNDS = 4  # of colouring by Weisfeiler and Leman
_MANY_TWINS = 0.01  # share of the test part
_MAX_COLUMNS = 4096
_BINS = 32
_SOLVED = 0.99  # share of the target that a single column may not explain
_NUM_GRAPHS = 100  # whose labels are computed anew


@dataclass(frozen=True)
class Finding:
    r"""What one look at a data set showed."""

    check: str  # what was looked at
    verdict: Verdict  # whether it is as it should be
    text: str  # what was found, in a sentence


def audit(task: GraphTaskData, fold: int = 0) -> list[Finding]:
    r"""Looks for what makes numbers on a data set mean less than they seem to.

    - **splits**: parts that overlap or are empty;
    - **twins**: graphs of the test part that are also in training, by a hash of Weisfeiler and
      Leman over edges and features, and over edges alone; of a single graph, nodes;
    - **labels**: computed anew where their definition is known;
    - **leaks**: how much of the target a table over one single input column explains;
    - **balance**: shares of classes, or the spread of quantities, in every part.
    """
    if not 0 <= fold < len(task.folds):
        raise ValueError(f"Expected a fold below {len(task.folds)} of '{task.name}' (got {fold})")
    parts = _Parts(task, task.folds[fold])
    looks = (_look_at_splits, _look_at_twins, _look_at_labels, _look_at_leaks, _look_at_balance)
    return [finding for look in looks for finding in look(task, parts)]


class _Parts:
    """Graphs and targets as flat arrays, and which part each judged row belongs to."""

    def __init__(self, task: GraphTaskData, fold: Fold) -> None:
        self.members = [np.asarray(part) for part in fold.parts]
        self.single = fold.train.dtype == torch.bool
        graphs = list(task.graphs)
        sizes = np.array([graph.num_nodes or 0 for graph in graphs])
        self.graph = np.repeat(np.arange(len(graphs)), sizes)  # of each node
        first = np.cumsum(sizes) - sizes
        shifted = [edges_of(g).numpy() + start for g, start in zip(graphs, first, strict=True)]
        self.edges = np.concatenate(shifted, axis=1)
        inputs = [graph.x for graph in graphs if graph.x is not None]
        self.x = torch.cat(inputs).flatten(1).double().numpy() if inputs else None
        self.y = torch.cat([graph["y"] for graph in graphs]).numpy()
        if task.kind != "classification":
            self.y = self.y.reshape(len(self.y), -1)
        # which row of the targets belongs to which graph; a graph target is one of its own
        self.owner = self.graph if task.level == "node" else np.arange(len(graphs))
        self.judged = np.ones(len(self.owner), dtype=bool)
        if task.level == "node" and "label_mask" in graphs[0]:
            self.judged = torch.cat([graph["label_mask"] for graph in graphs]).numpy()

    def rows(self, part: int) -> NDArray[np.bool_]:
        """Which rows of the targets a part judges."""
        if self.single:
            return np.asarray(self.members[part] & self.judged)
        return np.asarray(np.isin(self.owner, self.members[part]) & self.judged)


def _look_at_splits(task: GraphTaskData, parts: _Parts) -> Iterator[Finding]:
    numbers = [set(np.flatnonzero(m) if parts.single else m.tolist()) for m in parts.members]
    items = "nodes" if parts.single else "graphs"
    shared = sum(len(one & other) for one, other in combinations(numbers, 2))
    sizes = ", ".join(f"{len(n):,} {part}" for n, part in zip(numbers, PARTS, strict=True))
    bad = shared or not all(numbers)
    words = f"{shared:,} {items} are in two parts" if shared else "a part is empty" if bad else ""
    yield Finding("splits", "fault" if bad else "ok", f"{words or 'no overlap'} ({sizes})")


def _look_at_twins(task: GraphTaskData, parts: _Parts) -> Iterator[Finding]:
    start = np.zeros(len(parts.graph), dtype=np.uint64)
    for what, colors in (("edges and features", _hash_rows(parts.x)), ("edges alone", start)):
        if colors is None:
            continue
        colors = _refine(colors, parts.edges)
        if not parts.single:  # a graph has the sum over its nodes
            sums = np.zeros(len(task.graphs), dtype=np.uint64)
            np.add.at(sums, parts.graph, _mix(colors))
            colors = sums
        train, test = (colors[parts.members[part]] for part in (0, 2))
        twins = np.isin(test, train)
        share = float(twins.mean()) if len(test) else 0.0
        items = "nodes" if parts.single else "graphs"
        verdict: Verdict = "ok" if share == 0 else "note"
        if what != "edges alone" and share >= _MANY_TWINS and not parts.single:
            verdict = "fault"
        text = f"{twins.sum():,} of {len(test):,} test {items} ({share:.1%}) are in training too"
        yield Finding("twins", verdict, f"by {what}, {text}")


def _look_at_labels(task: GraphTaskData, parts: _Parts) -> Iterator[Finding]:
    found = compare_labels(task)
    if found is not None:
        agreed, definition = found
        words = f"{agreed:.1%} of the labels that were computed anew are {definition}"
        yield Finding("labels", "ok" if agreed > 0.9999 else "fault", words)
    for note in task.notes:
        if "recomputed" in note or "Labels" in note or "equal the test" in note:
            yield Finding("labels", "note", note.removesuffix("."))
    if found is None:
        missing = 1 - float(is_known(torch.from_numpy(parts.y)).double().mean())
        text = f"their definition is not known here; {missing:.1%} are missing"
        yield Finding("labels", "ok" if missing == 0 else "note", text)


def _look_at_leaks(task: GraphTaskData, parts: _Parts) -> Iterator[Finding]:
    if parts.x is None or not parts.x.shape[1]:
        yield Finding("leaks", "ok", "there are no input columns")
        return
    columns = parts.x[:, :_MAX_COLUMNS]
    if task.level == "graph":  # the mean over the nodes of each graph
        sums = np.zeros((len(task.graphs), columns.shape[1]))
        np.add.at(sums, parts.graph, columns)
        columns = sums / np.maximum(np.bincount(parts.graph, minlength=len(sums)), 1)[:, None]
    target = parts.y.astype(np.float64)
    if task.kind == "classification":
        target = np.eye(task.num_outputs)[parts.y.reshape(-1)]
    train, test = parts.rows(0), parts.rows(2)
    scores = [_explained(c[train], target[train], c[test], target[test]) for c in columns.T]
    best = int(np.argmax(scores))
    name = task.feature_names[best] if best < len(task.feature_names) else f"column {best}"
    verdict: Verdict = "fault" if scores[best] >= _SOLVED else "ok"
    text = f"{name} alone explains {max(scores[best], 0):.1%} of the target, most of all columns"
    yield Finding("leaks", verdict, f"{text} ({len(scores):,} looked at)")


def _look_at_balance(task: GraphTaskData, parts: _Parts) -> Iterator[Finding]:
    chosen = [parts.y[parts.rows(part)] for part in range(3)]
    if task.kind == "classification":
        counts = [np.bincount(y.reshape(-1), minlength=task.num_outputs) for y in chosen]
        absent = [part for part, count in zip(PARTS, counts, strict=True) if (count == 0).any()]
        share = counts[0] / max(counts[0].sum(), 1)
        text = f"classes are {share.min():.1%} to {share.max():.1%} of training"
        if absent:
            text += f"; a class is missing in {' and '.join(absent)}"
        odd: Verdict = "note" if absent or share.min() < 0.01 else "ok"
        yield Finding("balance", "fault" if "train" in absent else odd, text)
        return
    values = chosen[0].astype(np.float64)
    if task.kind == "multilabel":
        share = np.nanmean(values, axis=0)
        text = f"labels hold for {share.min():.1%} to {share.max():.1%} of training"
        yield Finding("balance", "note" if share.min() < 0.01 else "ok", text)
        return
    mean, spread = float(np.nanmean(values)), float(np.nanstd(values))
    test = float(np.nanmean(chosen[2].astype(np.float64))) if len(chosen[2]) else mean
    shifted = abs(test - mean) > 0.5 * spread
    text = f"targets are {mean:.4g} ± {spread:.4g} in training and {test:.4g} on average in test"
    yield Finding("balance", "note" if shifted else "ok", text)


def _explained(x: Floats, y: Floats, x_test: Floats, y_test: Floats) -> float:
    """Share of the target's variance that the mean of each of some bins of a column explains."""
    edges = np.unique(np.quantile(x, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(x) else x
    places, test_places = (np.searchsorted(edges, values) for values in (x, x_test))
    known = np.isfinite(y).all(axis=1)
    center = y[known].mean(axis=0) if known.any() else np.zeros(y.shape[1])
    sums = np.zeros((len(edges) + 1, y.shape[1]))
    np.add.at(sums, places[known], y[known])
    count = np.bincount(places[known], minlength=len(sums))[:, None]
    table = np.where(count > 0, sums / np.maximum(count, 1), center)
    rest = np.nansum((y_test - table[test_places]) ** 2)
    whole = np.nansum((y_test - center) ** 2)
    return float(1 - rest / whole) if whole > 0 else 0.0


def _hash_rows(x: Floats | None) -> NDArray[np.uint64] | None:
    if x is None:
        return None
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)  # a negative zero is a zero
    colors = np.zeros(len(x), dtype=np.uint64)
    for values in bits.T:
        colors = _mix(colors ^ values)
    return colors


def _refine(colors: NDArray[np.uint64], edges: Array) -> NDArray[np.uint64]:
    """Colours by Weisfeiler and Leman: own colour and the multiset of the neighbours'."""
    for _ in range(_ROUNDS):
        sums = np.zeros(len(colors), dtype=np.uint64)
        np.add.at(sums, edges[1], _mix(colors)[edges[0]])
        colors = _mix(colors * np.uint64(3) ^ _mix(sums))
    return colors


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return scatter_bits(values + np.uint64(0x9E3779B97F4A7C15))


@dataclass(frozen=True)
class _Formula:
    definition: str  # what the labels should be
    labels: Callable[[Data], Floats]
    influence: Matrix | None = None


def compare_labels(task: GraphTaskData) -> tuple[float, str] | None:
    r"""The share of labels that agree when computed anew, and what they are, where it is known."""
    formula = _find(task.name)
    if formula is None:
        return None
    step = max(1, len(task.graphs) // _NUM_GRAPHS)
    agreed = []
    for graph in task.graphs[::step] if step > 1 else task.graphs:
        expected, found = formula.labels(graph).reshape(-1), graph["y"].double().numpy().reshape(-1)
        agreed.append(np.isclose(found, expected, rtol=1e-4, atol=1e-4))
    return float(np.concatenate(agreed).mean()), formula.definition


def known_influence(name: str) -> Matrix | None:
    r"""Returns what computes the influence of a task; :obj:`None` where its formula is unknown.

    Known are the barbells, the range tasks and the Ising model.

    Example:
        >>> barbell = known_influence("barbell-2")
        >>> barbell(torch.zeros(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]))[0]
        tensor([0.0000, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    formula = _find(name)
    return None if formula is None else formula.influence


def _distances(name: str) -> _Formula:
    """Property and ECHO: hops from the marked source, to the farthest node, or at most."""
    word = name.split("-")[1]

    def labels(graph: Data) -> Floats:
        matrix = _adjacency(graph["edge_index"], graph.num_nodes or 0)
        hops: Floats = shortest_paths(matrix)[0].astype(np.float64)
        if word.startswith("diam"):
            return np.asarray(hops.max())
        if word.startswith("ecc"):
            return np.asarray(hops.max(axis=1))
        return np.asarray(np.maximum(hops[int(graph["x"][:, 0].argmax())], 0))

    hops = {"d": "the longest shortest path", "e": "the distance of the farthest node"}
    return _Formula(hops.get(word[:1], "the distance from the marked source"), labels)


def _barbell(name: str) -> _Formula:
    def labels(graph: Data) -> Floats:
        x = graph["x"].double().numpy().reshape(2, -1)
        return np.repeat(x.mean(axis=1)[::-1], x.shape[1])

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        size = len(x) // 2
        clique = torch.arange(len(x)) // size
        return (clique[:, None] != clique).double() / size

    return _Formula("the mean of the other clique", labels, influence)


def _range(name: str) -> _Formula:
    reach, _, hops, variant = find(name).arguments

    def labels(graph: Data) -> Floats:
        x = graph["x"][:, 0].double().numpy()
        pairs = x[None] if variant == "copy" else (x[:, None] - x) ** 2
        weights = reach_weights(_adjacency(graph["edge_index"], len(x)), reach, hops)[0]
        return np.asarray((weights * pairs).sum(1))

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        values = x[:, 0].double().cpu().numpy()[None]
        adjacency = _adjacency(edge_index, len(x))
        return torch.from_numpy(task_influence(adjacency, values, reach, hops, variant)[0])

    return _Formula("the sum over nodes at the stated distance", labels, influence)


def _ising(name: str) -> _Formula:
    side, kind = find(name).arguments
    strength = couplings(side, SIGMAS[kind])

    def labels(graph: Data) -> Floats:
        spins = graph["x"].numpy().astype(np.int8).reshape(1, side, side)
        return local_fields(spins, strength)

    def influence(x: Tensor, edge_index: Tensor) -> Tensor:
        # a target changes with its own spin by all that the others contribute
        row, line = np.divmod(np.arange(side * side), side)
        found = strength[(row[:, None] - row) % side, (line[:, None] - line) % side]
        spins = x[:, 0].double().cpu().numpy()
        return torch.from_numpy(found + np.diag(np.abs(found @ spins)))

    return _Formula("the field of the spin", labels, influence)


def _adjacency(edge_index: Tensor, size: int) -> NDArray[np.bool_]:
    matrix = np.zeros((1, size, size), dtype=bool)
    source, target = edge_index.cpu().numpy()
    matrix[0, source, target] = True
    return matrix


_FAMILIES: dict[str, Callable[[str], _Formula]] = {
    "property": _distances,
    "echo": _distances,
    "barbell": _barbell,
    "range": _range,
    "ising": _ising,
}


def _find(name: str) -> _Formula | None:
    make = _FAMILIES.get(name.partition("-")[0])
    return None if make is None else make(name)
