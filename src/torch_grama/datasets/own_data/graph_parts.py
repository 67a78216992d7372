"""Edges, features and divisions as users state them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import Labels, Where
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.splits import Split


@dataclass(frozen=True)
class Edges:
    r"""The directed entries of a graph."""

    index: NDArray[np.int64]  # source and target of each entry ``[2, E]``
    # the listed edge behind each entry ``[E]``; features and weights are taken from it
    rows: NDArray[np.int64]
    num_added: int  # how many entries were added as the reverse of a listed edge


def check_edges(
    pairs: NDArray[np.generic], num_nodes: int, where: Where, source: str
) -> NDArray[np.int64]:
    r"""Turns pairs of node numbers into sources and targets."""
    if not pairs.size:
        return np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DatasetError(
            f"{source} lists edges as {pairs.dtype} of the shape {tuple(pairs.shape)}: store a "
            f"pair of node numbers an edge."
        )
    numbers = pairs.astype(np.int64)
    for edge, end in np.argwhere((numbers < 0) | (numbers >= num_nodes))[:1]:
        raise DatasetError(
            f"{where(int(edge))} names the node {pairs[edge, end]}, but the nodes are 0 to "
            f"{num_nodes - 1}: correct or remove the edge."
        )
    return np.ascontiguousarray(numbers.T)


def complete_edges(listed: NDArray[np.int64], num_nodes: int, directed: bool) -> Edges:
    r"""Adds to every listed edge its reverse, unless the reverse is listed as well.

    So a list that names each undirected edge once and a list that names it in both directions
    give the same graph. Entries keep the order of the list, followed by the added ones.
    """
    rows = np.arange(listed.shape[1], dtype=np.int64)
    if directed:
        return Edges(listed, rows, 0)
    source, target = listed
    forward = source * num_nodes + target
    backward = target * num_nodes + source
    missing = np.flatnonzero(~contains(forward, backward))
    index = np.concatenate([listed, listed[::-1, missing]], axis=1)
    return Edges(index, np.concatenate([rows, missing]), len(missing))


def contains(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    r"""Says for each wanted key whether it is among the keys."""
    found = np.zeros(len(wanted), dtype=bool)
    if len(keys):
        ordered = np.sort(keys)
        order = np.argsort(wanted)  # a search in ascending order stays in the cache
        position = np.searchsorted(ordered, wanted[order]).clip(max=len(ordered) - 1)
        found[order] = ordered[position] == wanted[order]
    return found


def direction_note(source: str, num_added: int, directed: bool) -> str:
    r"""Says how the edges were taken."""
    if directed:
        return f"The edges of {source} were taken as directed."
    if num_added:
        return (
            f"The edges of {source} were taken as undirected: the reverse of {num_added:,} of them "
            f"was added."
        )
    return f"Every edge of {source} is listed in both directions and was taken as it is."


# Category numbers index an embedding table: a larger one is a mistake.
_MOST_CATEGORIES = 1_000_000


def check_features(
    values: NDArray[np.generic], names: tuple[str, ...], where: Where, options: Options
) -> Tensor:
    r"""Turns a feature matrix into float32, or into category numbers if the user says so."""
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise DatasetError(
            f"{where(0)} has features that are no rows of numbers (they are {values.dtype} of the "
            f"shape {tuple(values.shape)}): store one row of numbers an item."
        )
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    for row, column in np.argwhere(~np.isfinite(floats))[:1]:
        raise DatasetError(
            f"{where(int(row))} has the value {values[row, column]} in feature "
            f"{_column(names, column)}: replace it by a finite number."
        )
    if not options.categorical:
        return torch.from_numpy(floats)
    numbers = values.astype(np.float64)
    wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= _MOST_CATEGORIES)
    for row, column in np.argwhere(wrong)[:1]:
        raise DatasetError(
            f"{where(int(row))} has the value {values[row, column]} in feature "
            f"{_column(names, column)}, which is no category number: use 0, 1, 2, ..., or do not "
            f"ask for categorical features."
        )
    return torch.from_numpy(numbers.astype(np.int64))


def check_node_level(path: Path, options: Options) -> None:
    r"""Refuses targets of graphs where the nodes of one graph carry them."""
    if options.level == "graph":
        raise DatasetError(
            f"'{path}' holds one graph whose nodes carry the labels: ask for level 'node', or "
            f"write many graphs as JSON lines."
        )


def check_alike(graphs: Sequence[Data], where: Where) -> None:
    r"""Refuses graphs that do not all have the same features."""
    for number, graph in enumerate(graphs):
        for name in ("x", "edge_attr", "edge_weight"):
            this, first = graph.get(name), graphs[0].get(name)
            if (None if this is None else this.shape[1:]) != (
                None if first is None else first.shape[1:]
            ):
                raise DatasetError(
                    f"{where(number)} differs from {where(0)} in '{name}': give all graphs the "
                    f"same number of features."
                )


def _column(names: tuple[str, ...], column: int) -> str:
    return f"'{names[column]}'" if names else str(column)


_WORDS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}
_NAMES = ("train", "val", "test")


def split_from_parts(parts: NDArray[np.int64], labels: Labels, where: Where, source: str) -> Split:
    r"""Turns a part number an item (-1: none) into a division."""
    for item in np.flatnonzero((parts >= 0) & ~labels.labelled)[:1]:
        raise DatasetError(
            f"{where(int(item))} is in '{_NAMES[parts[item]]}' but has no label: fill in the "
            f"label, or take it out of the split."
        )
    for number, name in enumerate(_NAMES):
        if not (parts == number).any():
            raise DatasetError(
                f"{source} leaves '{name}' empty: put items into it, or remove the split to have "
                f"one made."
            )
    return Split(*(np.flatnonzero(parts == number) for number in range(3)))


def parts_from_words(words: Sequence[str], where: Where) -> NDArray[np.int64]:
    r"""Reads the words train, val and test; an empty word is no part."""
    numbers = {"": -1, **_WORDS}
    parts = np.empty(len(words), dtype=np.int64)
    for item, word in enumerate(words):
        number = numbers.get(word.strip().lower())
        if number is None:
            raise DatasetError(
                f"{where(item)} has the split '{word}': write train, val or test, or leave it "
                f"empty."
            )
        parts[item] = number
    return parts


def splits_from_masks(
    masks: Sequence[NDArray[np.generic]], labels: Labels, where: Where, source: str
) -> list[Split]:
    r"""Turns three masks ``[K, M]`` into K divisions."""
    count = len(labels.labelled)
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
    for fold in range(shapes[0][0]):
        chosen = np.stack([mask[fold] for mask in flags]) == 1
        for item in np.flatnonzero(chosen.sum(axis=0) > 1)[:1]:
            names = " and ".join(f"'{_NAMES[part]}'" for part in np.flatnonzero(chosen[:, item]))
            raise DatasetError(
                f"{where(int(item))} is in {names} of split {fold}: keep it in one of them."
            )
        parts = np.where(chosen.any(axis=0), chosen.argmax(axis=0), -1)
        splits.append(split_from_parts(parts, labels, where, f"Split {fold} of {source}"))
    return splits
