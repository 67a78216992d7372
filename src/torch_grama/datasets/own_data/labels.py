"""Targets as users write them, turned into classes, flags or numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.options import Options, OwnKind
from torch_grama.datasets.task_data import is_known

Where = Callable[[int], str]
"""Says where an item lies: the file and its line or position."""


@dataclass(frozen=True)
class Labels:
    r"""The targets of all items."""

    kind: OwnKind  # the kind of target
    y: Tensor  # class numbers ``[M]`` (-1 without label), or float32 ``[M, T]`` (NaN without label)
    class_names: tuple[str, ...] = ()  # what classes, flags or quantities are called, if anything

    @property
    def labelled(self) -> NDArray[np.bool_]:
        r"""Which items have a label ``[M]``."""
        return np.asarray(is_known(self.y.reshape(len(self.y), -1)).any(dim=1))

    @property
    def num_outputs(self) -> int:
        return len(self.class_names) or self.y.size(1)


def labels_from_numbers(
    values: NDArray[np.generic],
    where: Where,
    options: Options,
    *,
    flags: bool = True,
    names: Sequence[str] = (),
) -> Labels:
    r"""Reads targets from an array ``[M]`` or ``[M, T]``.

    A vector of integers holds class numbers (-1: no label), a vector of other numbers a quantity
    (NaN: no label). A matrix of zeros and ones holds flags, any other matrix several quantities;
    NaN is one that is not known. ``names`` says what the columns of a matrix are called.
    """
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2) or values.shape[-1] == 0:
        raise DatasetError(
            f"{where(0)} has a label that is no number or vector of numbers (the labels are "
            f"{values.dtype} of the shape {tuple(values.shape)}): store one row per item."
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    table = values.reshape(len(values), -1).astype(np.float64)
    integers = values.dtype.kind in "biu"
    with np.errstate(over="ignore"):
        y = torch.from_numpy(table.astype(np.float32))
    for item in np.flatnonzero(np.isinf(y.numpy()).any(axis=1))[:1]:
        raise DatasetError(
            f"{where(int(item))} has a label that is infinite: correct it, or leave it out."
        )
    known = np.isfinite(table)
    kind: OwnKind = options.kind or "regression"
    if options.kind is None and values.ndim == 1 and (integers or options.classes):
        kind = "classification"
    elif options.kind is None and values.ndim == 2 and (integers or flags):
        kind = "multilabel" if np.isin(table[known], (0.0, 1.0)).all() else "regression"
    if kind == "classification":
        if values.ndim == 2:
            raise DatasetError(
                f"{where(0)} has {table.shape[1]} labels where one class was asked for: ask for "
                f"kind 'multilabel' or 'regression', or store class numbers."
            )
        return _class_numbers(table[:, 0], where, options)
    _require_labels(bool(known.any()), where)
    if kind == "regression":
        return Labels("regression", y, tuple(names))
    for item in np.flatnonzero((known & ~np.isin(table, (0.0, 1.0))).any(axis=1))[:1]:
        raise DatasetError(
            f"{where(int(item))} has the flags {values[item].tolist()}: each must be 0 or 1."
        )
    count = y.size(1)
    if options.classes and len(options.classes) != count:
        raise DatasetError(
            f"Expected as many 'classes' as there are flags (got {len(options.classes)} names for "
            f"{count} flags): name each one."
        )
    called = options.classes or tuple(names) or tuple(map(str, range(count)))
    return Labels("multilabel", y, called)


def labels_from_tags(
    tags: Sequence[Sequence[str] | None], where: Where, options: Options
) -> Labels:
    r"""Reads a list of names an item: each name is a flag that the item carries."""
    if options.kind not in (None, "multilabel"):
        raise DatasetError(
            f"{where(0)} has a list of names where a {options.kind} was asked for: ask for kind "
            f"'multilabel', or write one label."
        )
    names = options.classes or tuple(sorted({tag for item in tags for tag in item or ()}))
    _require_labels(bool(names), where)
    labelled = np.array([item is not None for item in tags], dtype=bool)
    rows = [row for row, item in enumerate(tags) for _ in item or ()]
    words = [tag for item in tags for tag in item or ()]
    y = np.where(labelled[:, None], np.zeros(len(names), dtype=np.float32), np.float32(np.nan))
    y[rows, _numbered(words, names, where, rows)] = 1.0
    return Labels("multilabel", torch.from_numpy(y), names)


def _class_numbers(values: NDArray[np.float64], where: Where, options: Options) -> Labels:
    labelled = ~np.isnan(values) & (values != -1)
    _require_labels(bool(labelled.any()), where)
    present = values[labelled]
    distinct = len(np.unique(present))
    # A class without items is odd, many are a mistake in one of the numbers.
    count = len(options.classes) or min(int(present.max()) + 1, max(2 * distinct, distinct + 10))
    wrong = labelled & ((values < 0) | (values >= count) | (values != np.floor(values)))
    for item in np.flatnonzero(wrong)[:1]:
        raise DatasetError(
            f"{where(int(item))} has the label {values[item]:g}, which is outside the classes 0 to "
            f"{count - 1}: correct it, or use -1 for an item without label."
        )
    y = torch.from_numpy(np.where(labelled, values, -1).astype(np.int64))
    names = options.classes or tuple(str(number) for number in range(count))
    return Labels("classification", y, names)


def _require_labels(found: bool, where: Where) -> None:
    if not found:
        raise DatasetError(f"{where(0)} and all that follow have no label: fill in the labels.")


def _numbered(
    labels: Sequence[str], names: Sequence[str], where: Where, items: Sequence[int]
) -> list[int]:
    """The numbers of classes by their names; ``items`` says whose labels they are."""
    number = {name: column for column, name in enumerate(names)}
    for label, item in zip(labels, items, strict=True):
        if label not in number:
            listed = ", ".join(map(shown, names[:8])) + ", ..." * (len(names) > 8)
            raise DatasetError(
                f"{where(item)} has the label {shown(label)}, which is outside the classes "
                f"{listed}: correct it, or add it to 'classes'."
            )
    return [number[label] for label in labels]


_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# More distinct integers than this are taken for a quantity.
_MOST_CLASSES = 50


def labels_from_text(cells: Sequence[str], where: Where, options: Options) -> Labels:
    r"""Reads one target an item, as it stands in a table; an empty cell is a missing label.

    Texts are classes. Integers are classes if there are few of them (at most 50 distinct, and
    each on average at least twice or numbered 0, 1, 2, ...), a quantity otherwise. Numbers with a
    decimal point are a quantity.
    """
    _require_labels(any(cells), where)
    if options.kind == "multilabel":
        raise DatasetError(
            f"{where(0)} has one label where several flags were asked for: name all of their "
            f"columns with `-o label=[NAME,NAME]`."
        )
    kind: OwnKind | None = options.kind or ("classification" if options.classes else None)
    items = [item for item, cell in enumerate(cells) if cell]
    present = [cells[item] for item in items]
    if kind is None:
        kind = _kind_of_text(present, cells, where)
    if kind == "regression":
        numbers = np.full((len(cells), 1), np.nan, dtype=np.float32)
        numbers[items, 0] = [parse_number(cells[item], where, item) for item in items]
        return Labels(kind, torch.from_numpy(numbers))
    names = options.classes
    if not names:
        numeric = all(map(_INTEGER.fullmatch, present))
        names = tuple(sorted(set(present), key=int) if numeric else sorted(set(present)))
    y = np.full(len(cells), -1, dtype=np.int64)
    y[items] = _numbered(present, names, where, items)
    return Labels("classification", torch.from_numpy(y), names)


def parse_number(cell: str, where: Where, item: int) -> float:
    number = _number(cell)
    if number is None or np.isinf(number) or np.isnan(number):
        raise DatasetError(f"{where(item)} has the label {shown(cell)}: write a finite number.")
    return number


def _number(cell: str) -> float | None:
    """A number, infinite where float32 has none so large; nothing where it is a word."""
    try:
        with np.errstate(over="ignore"):
            number = None if "_" in cell else float(cell)
            return np.inf if number is not None and np.isinf(np.float32(number)) else number
    except ValueError:
        return None


def _kind_of_text(present: Sequence[str], cells: Sequence[str], where: Where) -> OwnKind:
    distinct = set(present)
    numbers = {cell: _number(cell) for cell in distinct}
    texts = {cell for cell, number in numbers.items() if number is None}
    decimals = {cell for cell in distinct - texts if not _INTEGER.fullmatch(cell)}
    absent = {cell for cell in decimals if not np.isfinite(numbers[cell] or 0.0)}
    for odd in (absent, texts if decimals else ()):
        for row in (row for row, cell in enumerate(cells) if cell in odd):
            raise DatasetError(
                f"{where(row)} has the label {shown(cells[row])} among numbers: correct it, leave "
                f"it empty where it is unknown, or take all as classes with `-o "
                f"kind=classification`.",
                remedy="kind=classification",
            )
    if texts:
        if len(distinct) > max(_MOST_CLASSES, len(present) // 2):
            raise DatasetError(
                f"{where(0)} begins a column of labels with {len(distinct)} different texts for "
                f"{len(present)} items: choose another column with `-o label=NAME`, or take all "
                f"as classes with `-o kind=classification`.",
                remedy="kind=classification",
            )
        return "classification"
    if decimals or len(distinct) > _MOST_CLASSES:
        return "regression"
    counted = {int(cell) for cell in distinct} == set(range(len(distinct)))
    return "classification" if counted or 2 * len(distinct) <= len(present) else "regression"


def read_json_labels(values: Sequence[object], where: Where, options: Options) -> Labels:
    r"""Reads one target per graph.

    Words and truth values are classes, whole numbers are classes if there are few of them, other
    numbers a quantity (see :func:`labels_from_text`). A list of words is a set of flags, a list of
    zeros and ones likewise, any other list of numbers several quantities; null in a list of
    numbers is one that is not known.
    """
    if any(isinstance(value, list) for value in values):
        return _read_lists(values, where, options)
    cells = []
    for graph, value in enumerate(values):
        if value is not None and not isinstance(value, str | int | float):
            raise DatasetError(
                f"{where(graph)} has a label that is a {type(value).__name__}: write a number, a "
                f"word, or a list of them."
            )
        cells.append(_cell(value))
    if options.kind is None and any(isinstance(value, str | bool) for value in values):
        options = replace(options, kind="classification")
    return labels_from_text(cells, where, options)


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else repr(value)


def _read_lists(values: Sequence[object], where: Where, options: Options) -> Labels:
    first = next((value for value in values if isinstance(value, list) and value), [""])
    words, length = any(isinstance(item, str) for item in first), len(first)
    lists: list[list[Any] | None] = []
    for graph, value in enumerate(values):
        if value is not None and (
            not isinstance(value, list) or (not words and len(value) != length)
        ):
            raise DatasetError(
                f"{where(graph)} has a label of another length than the others, which are lists of "
                f"{length}: write them alike."
            )
        if words:
            fits = all(isinstance(item, str) for item in value or ())
        else:  # null is a number that is not known
            known = [item for item in value or () if item is not None]
            fits = all(type(item) in (int, float) and abs(item) < 1e300 for item in known)
        if not fits:
            raise DatasetError(
                f"{where(graph)} has a list of labels with something else than "
                f"{'words' if words else 'numbers'} in it: write them alike."
            )
        lists.append(value)
    if words:
        return labels_from_tags(lists, where, options)
    if length == 1:
        cells = [_cell(None if value is None else value[0]) for value in lists]
        return labels_from_text(cells, where, options)
    rows = np.array(
        [[np.nan if v is None else v for v in value or [None] * length] for value in lists]
    )
    whole = all(isinstance(item, int | None) for value in lists for item in value or ())
    return labels_from_numbers(rows, where, options, flags=whole)
