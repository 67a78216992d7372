"""What a reader of any form hands on: graphs, targets and splits, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.labels import Labels, Where
from torch_grama.datasets.raw_arrays import Array
from torch_grama.datasets.splits import PARTS, index_fold
from torch_grama.datasets.task_data import Fold, Level, TableForm

CONSTANT_NOTE = "The nodes have no features: each got the constant 1."
# What a node without features takes, with its constant, its target and its place in splits.
NODE_BYTES = 16
# Category numbers index an embedding table: a larger one is a mistake.
_MOST_CATEGORIES = 1_000_000
_SPLIT_WORDS = ("train", "training"), ("val", "valid", "validation"), ("test", "testing")


@dataclass(frozen=True)
class ParsedGraphs:
    r"""Graphs and targets of one of the forms, checked."""

    path: Path | None  # the file or folder, if the data came out of one
    graphs: Sequence[Data]  # the graphs, without their targets
    level: Level  # whether nodes or graphs carry the targets
    labels: Labels | None  # the targets of all nodes, graph after graph, or of all graphs
    splits: Sequence[Fold]  # the splits that the files state; empty to have one made
    identity: str  # a fingerprint of the nodes or graphs, whatever the options are
    target: tuple[str, ...] = ("y",)  # the names under which the targets stand in the files
    notes: tuple[str, ...] = ()  # what was decided while reading, one sentence each
    feature_names: tuple[str, ...] = ()  # names of the columns of ``x``
    node_names: Sequence[str] = ()  # names of the nodes of a single graph
    edge_feature_names: tuple[str, ...] = ()  # names of the columns of ``edge_attr``
    form: TableForm | None = None  # how tables became features, which may have gaps still
    warnings: tuple[str, ...] = ()  # what a user should look at, one sentence each


def make_graph(
    place: str,
    x: Array | None,
    num_nodes: int,
    edges: tuple[Array, str],
    options: Options,
    edge_attr: Array | None = None,
    edge_weight: Array | None = None,
) -> tuple[Data, NDArray[np.int64]]:
    r"""Makes a graph of arrays, and returns its edges ``[2, E]`` as they are listed.

    ``edges`` are pairs of node numbers, and what one of them is called, such as ``row {}``. Without
    features, every node gets the constant 1.
    """
    listed = _check_edges(*edges, num_nodes, place)
    features = None if x is None else check_features(x, lambda row: f"{place}, node {row}", options)
    index, rows = complete_edges(listed, num_nodes, options.directed)
    data = Data(
        x=torch.ones(num_nodes, 1) if features is None else features,
        edge_index=torch.from_numpy(index),
    )
    for key, values in (("edge_attr", edge_attr), ("edge_weight", edge_weight)):
        if values is None:
            continue
        one_each = values.ndim == 1 if key == "edge_weight" else values.ndim > 0
        if not one_each or len(values) != listed.shape[1]:
            what = "number" if key == "edge_weight" else "row of numbers"
            raise DatasetError(
                f"{place} has '{key}' of the shape {tuple(values.shape)} for {listed.shape[1]} "
                f"edges: store one {what} an edge."
            )
        plain = options if key == "edge_attr" else Options()
        found = check_features(values, lambda row: f"{place}, edge {row}", plain)[rows]
        data[key] = found if key == "edge_attr" else found[:, 0]
    return data, listed


def _check_edges(pairs: Array, word: str, num_nodes: int, place: str) -> NDArray[np.int64]:
    if not pairs.size:
        return np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DatasetError(
            f"{place} lists edges as {pairs.dtype} of the shape {tuple(pairs.shape)}: store a "
            f"pair of node numbers per edge."
        )
    numbers = pairs.astype(np.int64)
    for edge, end in np.argwhere((numbers < 0) | (numbers >= num_nodes))[:1]:
        raise DatasetError(
            f"{place}, {word.format(edge)} names the node {pairs[edge, end]}, but the nodes are 0 "
            f"to {num_nodes - 1}: correct or remove the edge."
        )
    return np.ascontiguousarray(numbers.T)


def complete_edges(
    listed: NDArray[np.int64], num_nodes: int, directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Adds to every listed edge its reverse, unless it is listed as well; returns the entries
    ``[2, E]``, listed ones first, and the listed edge ``[E]`` from which each has its features.
    """
    rows = np.arange(listed.shape[1], dtype=np.int64)
    if directed:
        return listed, rows
    source, target = listed
    missing = rows[~np.isin(target * num_nodes + source, source * num_nodes + target)]
    return np.concatenate([listed, listed[::-1, missing]], axis=1), np.append(rows, missing)


def direction_note(place: str, num_added: int, directed: bool) -> str:
    if directed:
        return f"The edges of {place} were taken as directed."
    if num_added:
        return (
            f"The edges of {place} were taken as undirected: the reverse of {num_added:,} of them "
            f"was added (`-o directed=true` takes them as they are)."
        )
    return f"Every edge of {place} is listed in both directions and was taken as it is."


def check_features(
    values: Array, where: Where, options: Options, names: Sequence[str] = ()
) -> Tensor:
    r"""Turns a feature matrix into float32, or into category numbers if the user says so."""
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise DatasetError(
            f"{where(0)} has features that are no rows of numbers (they are {values.dtype} of the "
            f"shape {tuple(values.shape)}): store one row of numbers per item."
        )
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    wrong, fault = ~np.isfinite(floats), ": replace it by a finite number."
    if options.categorical and not wrong.any():
        numbers = values.astype(np.float64)
        wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= _MOST_CATEGORIES)
        fault = (
            ", which is no category number: use 0, 1, 2, ..., or do not ask for categorical "
            "features."
        )
    for row, column in np.argwhere(wrong)[:1]:
        name = f"'{names[column]}'" if names else str(column)
        raise DatasetError(
            f"{where(int(row))} has the value {values[row, column]} in feature {name}{fault}"
        )
    return torch.from_numpy(values.astype(np.int64) if options.categorical else floats)


def check_node_level(place: str, options: Options) -> None:
    if options.level == "graph":
        raise DatasetError(
            f"{place} holds one graph whose nodes carry the labels: ask for level 'node', or "
            f"write many graphs as JSON lines."
        )


def check_alike(graphs: Sequence[Data], where: Where) -> None:
    for name in ("x", "edge_attr", "edge_weight"):
        found = [graph.get(name) for graph in graphs]
        widths = [None if values is None else values.shape[1:] for values in found]
        for number in (number for number, width in enumerate(widths) if width != widths[0]):
            raise DatasetError(
                f"{where(number)} differs from {where(0)} in '{name}': give all graphs the same "
                f"number of features."
            )


def split_from_words(
    words: Sequence[object], labelled: NDArray[np.bool_], where: Where, source: str
) -> Fold:
    r"""Reads the words train, val and test; an empty word is no part."""
    numbers = {word: part for part, known in enumerate(_SPLIT_WORDS) for word in known}
    parts = np.full(len(words), -1)
    for item, word in enumerate(words):
        if word is not None and not isinstance(word, str):
            raise DatasetError(
                f"{where(item)} has a 'split' that is no word: write train, val or test."
            )
        word = (word or "").strip()
        if word and word.lower() not in numbers:
            raise DatasetError(
                f"{where(item)} has the split {shown(word)}: write train, val or test, or leave it "
                f"empty."
            )
        parts[item] = numbers.get(word.lower(), -1)
    return _split_from_parts(parts, labelled, where, source)


def splits_from_masks(
    masks: Sequence[Array], labels: Labels, where: Where, source: str
) -> list[Fold]:
    r"""Turns three masks ``[K, M]`` into K splits."""
    count = len(labels.y)
    shapes = [tuple(mask.shape) for mask in masks]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or shapes[0][1] != count or not shapes[0][0]:
        raise DatasetError(
            f"{source} has masks of the shapes {', '.join(map(str, shapes))}: store three masks "
            f"with one value for each of the {count} items, all of the same shape."
        )
    flags = [mask.astype(np.float64) for mask in masks]
    if any(mask.dtype.kind not in "biu" for mask in masks) or not np.isin(flags, (0, 1)).all():
        raise DatasetError(f"{source} has masks that are not true or false: store booleans.")
    splits = []
    for number, chosen in enumerate(np.stack(flags, axis=1) == 1):  # [3, M]
        for item in np.flatnonzero(chosen.sum(axis=0) > 1)[:1]:
            names = " and ".join(f"'{PARTS[part]}'" for part in np.flatnonzero(chosen[:, item]))
            raise DatasetError(
                f"{where(int(item))} is in {names} of split {number}: keep it in one of them."
            )
        parts = np.where(chosen.any(axis=0), chosen.argmax(axis=0), -1)
        splits.append(
            _split_from_parts(parts, labels.labelled, where, f"Split {number} of {source}")
        )
    return splits


def _split_from_parts(
    parts: NDArray[np.int64], labelled: NDArray[np.bool_], where: Where, source: str
) -> Fold:
    """A part number per item (-1: none) as a split."""
    for item in np.flatnonzero((parts >= 0) & ~labelled)[:1]:
        raise DatasetError(
            f"{where(int(item))} is in '{PARTS[parts[item]]}' but has no label: fill in the label, "
            f"or take it out of the split."
        )
    for number, name in enumerate(PARTS):
        if not (parts == number).any():
            raise DatasetError(
                f"{source} leaves '{name}' empty: put items into it, or remove the split to have "
                f"one made."
            )
    return index_fold(*(np.flatnonzero(parts == number) for number in range(3)))
