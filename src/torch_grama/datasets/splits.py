"""Train / validation / test splits: official ones, and those made once from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.options import Fractions, check_fractions
from torch_grama.datasets.raw_arrays import Array, reading, unreadable
from torch_grama.datasets.task_data import Fold
from torch_grama.runs.atomic_file import file_lock, write_atomically
from torch_grama.runs.safe_files import read_plain

PARTS = ("train", "val", "test")


def make_split(
    items: NDArray[np.int64],
    classes: NDArray[np.int64] | None = None,
    *,
    fractions: Fractions = (0.6, 0.2, 0.2),
    seed: int = 0,
    class_names: Sequence[str] = (),
    what: str = "nodes",
) -> Fold:
    r"""Divides items into three sets of ascending indices, every class in the same proportions.

    The order within a class is that of a hash of seed and item, so the split depends on no
    random generator and is the same on every platform and with every version of numpy. The sizes
    of the three sets are the rounded fractions of the whole, and each class has within one item
    its own fractions and at least one item in each set.
    """
    check_fractions(fractions)
    items = np.asarray(items, dtype=np.int64)
    if len(items) < 3:
        raise DatasetError(
            f"Expected at least 3 {what} with a label to make a train, a validation and a test set "
            f"(got {len(items)}): add labels, or state the split in the data."
        )
    groups = np.zeros(len(items), dtype=np.int64) if classes is None else np.asarray(classes)
    origin = np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    steps = (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    order = np.lexsort((items, scatter_bits(steps + origin), groups))
    _, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
    smallest = int(counts.argmin())
    if counts[smallest] < 3:
        label = int(groups[order][first[smallest]])
        name = repr(class_names[label]) if label < len(class_names) else str(label)
        raise DatasetError(
            f"Expected at least 3 {what} of each class to split by class (got "
            f"{counts[smallest]} of class {name}): add some, merge the class with another, state "
            f"the split in the data, or ask for one that is not stratified (`-o stratify=false`)."
        )
    ends = first + counts
    place = np.arange(len(items))
    train_end, val_end = (np.repeat(end, counts) for end in _boundaries(first, ends, fractions))
    part = (place >= train_end).astype(int) + (place >= val_end)
    return index_fold(*(np.sort(items[order[part == number]]) for number in range(3)))


def _boundaries(
    first: NDArray[np.int64], ends: NDArray[np.int64], fractions: Fractions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where train and validation end inside each class, in positions of the sorted items."""
    sizes = []
    for fraction in (fractions[0], fractions[0] + fractions[1]):
        # Rounding the running total, not each class, keeps the sum over the classes right.
        running = np.floor(fraction * np.concatenate(([0], ends)) + 0.5).astype(np.int64)
        sizes.append(np.diff(running))
    counts = ends - first
    train_end = first + np.clip(sizes[0], 1, counts - 2)
    val_end = np.clip(first + sizes[1], train_end + 1, ends - 1)
    return train_end, val_end


def scatter_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    r"""The finaliser of splitmix64; unsigned arithmetic wraps."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(state ^ (state >> np.uint64(31)))


def index_fold(train: Array, val: Array, test: Array) -> Fold:
    return Fold(*(torch.from_numpy(part.astype(np.int64)) for part in (train, val, test)))


def consecutive_fold(counts: Iterable[int]) -> Fold:
    r"""The split of a set that lists training, validation and test graphs one after another."""
    ends = np.cumsum([0, *counts])
    return index_fold(*(np.arange(ends[k], ends[k + 1]) for k in range(3)))


def check_fold(fold: Fold, num_graphs: int, where: str) -> Fold:
    r"""Refuses a split whose numbers are not those of different graphs."""
    together = torch.cat(fold.parts)
    with reading(where, f"a split of the graphs 0 to {num_graphs - 1} into disjoint parts"):
        if len(together) and not 0 <= int(together.min()) <= int(together.max()) < num_graphs:
            raise ValueError(f"the graphs {together.min()} to {together.max()}")
        if len(together.unique()) != len(together):
            raise ValueError("a graph twice")
    return fold


def mask_folds(masks: Sequence[Array], num_nodes: int, where: str) -> list[Fold]:
    r"""One split per row of three boolean matrices ``[folds, N]``."""
    shapes = {mask.shape for mask in masks}
    with reading(where, f"disjoint masks with one row per split and {num_nodes} columns"):
        if len(shapes) != 1 or masks[0].ndim != 2 or masks[0].shape[1] != num_nodes:
            raise ValueError(f"masks of the shapes {sorted(shapes)}")
        parts = np.stack([mask.astype(bool) for mask in masks], axis=1)  # [folds, 3, N]
        if bool((parts.sum(axis=1) > 1).any()):
            raise ValueError("a node in two masks")
    return [Fold(*torch.from_numpy(fold)) for fold in parts]


_FORMAT = 1


def stored_split(
    path: Path, key: str, make: Callable[[], Fold], *, num_items: int, items: str, targets: str
) -> tuple[Fold, str | None]:
    r"""Returns the split that is stored under a key, or makes and stores it."""
    divisions = _read(path, items)
    if key in divisions:
        return _checked(path, key, divisions[key], num_items, targets), None
    split = make()
    stored = {"targets": targets, **{part: getattr(split, part).tolist() for part in PARTS}}
    try:
        with file_lock(path):
            # Another process may have added a split of its own in the meantime.
            divisions = {**_read(path, items), key: stored}
            table = {"format": _FORMAT, "items": items, "divisions": divisions}
            write_atomically(path, (json.dumps(table, separators=(",", ":")) + "\n").encode())
    except OSError as error:
        return split, f"it could not be stored in '{path}' ({error.strerror or error})"
    return split, None


def _read(path: Path, items: str) -> dict[str, object]:
    try:
        table = json.loads(read_plain(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(table, dict) or table.get("format") != _FORMAT:
        raise _broken(path, f"expected a table of format {_FORMAT}")
    if table.get("items") != items:
        raise _foreign(path, "the nodes or graphs")
    divisions = table.get("divisions")
    if not isinstance(divisions, dict):
        raise _broken(path, "'divisions' is missing")
    return divisions


def _checked(path: Path, key: str, stored: object, num_items: int, targets: str) -> Fold:
    if isinstance(stored, dict) and stored.get("targets") != targets:
        raise _foreign(path, "the labels")
    parts = []
    for name in PARTS:
        indices = stored.get(name) if isinstance(stored, dict) else None
        if (
            not isinstance(indices, list)
            or not indices
            or not all(type(index) is int and 0 <= index < num_items for index in indices)
        ):
            raise _broken(path, f"'{name}' of the split '{key}' is no list of valid indices")
        parts.append(np.asarray(indices, dtype=np.int64))
    joined = np.concatenate(parts)
    if len(np.unique(joined)) != len(joined):
        raise _broken(path, f"the sets of the split '{key}' overlap")
    return index_fold(*parts)


def _foreign(path: Path, what: str) -> DatasetError:
    return DatasetError(
        f"'{path}' holds splits of other data ({what} have changed since they were made): restore "
        f"the data, or delete the file to have new splits made."
    )


def _broken(path: Path, fault: str) -> DatasetError:
    return DatasetError(
        f"'{path}' is no file of splits ({fault}): delete it to have new splits made."
    )
