"""Targets written as text: words are classes, numbers are classes or a quantity."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import Labels, Where, outside_classes
from torch_grama.datasets.own_data.options import Options, OwnKind

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# More distinct integers than this are taken for a quantity.
_MOST_CLASSES = 50


def labels_from_text(cells: Sequence[str], where: Where, options: Options) -> Labels:
    r"""Reads one target an item, as it stands in a table; an empty cell is a missing label.

    Texts are classes. Integers are classes if there are few of them (at most 50 distinct, and
    each on average at least twice or numbered 0, 1, 2, ...), a quantity otherwise. Numbers with a
    decimal point are a quantity.

    Args:
        cells (sequence of str): The cells, without spaces around them.
        where (callable): Says where a cell lies.
        options (Options): What the user said.

    Returns:
        The targets.

    Raises:
        DatasetError: A label fits neither the others nor what the user said.
    """
    labelled = np.array([cell != "" for cell in cells], dtype=bool)
    if not labelled.any():
        raise DatasetError(f"{where(0)} and all that follow have no label: fill in the labels.")
    if options.kind == "multilabel":
        raise DatasetError(
            f"{where(0)} has one label where several flags were asked for: name all of their "
            f"columns with 'label'."
        )
    kind: OwnKind | None = options.kind or ("classification" if options.classes else None)
    if kind is None:
        kind = _kind_of_text([cell for cell in cells if cell], cells, where)
    if kind == "classification":
        return _classes(cells, labelled, where, options)
    numbers = np.full((len(cells), 1), np.nan, dtype=np.float32)
    for item in np.flatnonzero(labelled).tolist():
        numbers[item, 0] = parse_number(cells[item], where(item), "label")
    return Labels("regression", torch.from_numpy(numbers), labelled, 1)


def parse_number(cell: str, where: str, what: str) -> float:
    r"""Reads a finite number.

    Args:
        cell (str): The text.
        where (str): Where it stands.
        what (str): What it is: the word for the error.

    Raises:
        DatasetError: It is no finite number.
    """
    number = _number(cell)
    if number is None or not _is_finite(number):
        raise DatasetError(f"{where} has the {what} '{cell}': write a finite number.")
    return number


def _kind_of_text(present: Sequence[str], cells: Sequence[str], where: Where) -> OwnKind:
    distinct = set(present)
    numbers = {cell: _number(cell) for cell in distinct}
    texts = {cell for cell, number in numbers.items() if number is None}
    decimals = {cell for cell in distinct - texts if not _INTEGER.fullmatch(cell)}
    absent = {cell for cell in decimals if not _is_finite(numbers[cell] or 0.0)}
    for odd in (absent, texts if decimals else ()):
        for row in (row for row, cell in enumerate(cells) if cell in odd):
            raise DatasetError(
                f"{where(row)} has the label '{cells[row]}' among numbers: correct it, leave it "
                f"empty where it is unknown, or say kind 'classification'."
            )
    if texts:
        if len(distinct) > max(_MOST_CLASSES, len(present) // 2):
            raise DatasetError(
                f"{where(0)} begins a column of labels with {len(distinct)} different texts for "
                f"{len(present)} items: choose another column with 'label', or say kind "
                f"'classification'."
            )
        return "classification"
    if decimals or len(distinct) > _MOST_CLASSES:
        return "regression"
    counted = {int(cell) for cell in distinct} == set(range(len(distinct)))
    return "classification" if counted or 2 * len(distinct) <= len(present) else "regression"


def _classes(
    cells: Sequence[str], labelled: NDArray[np.bool_], where: Where, options: Options
) -> Labels:
    present = {cell for cell in cells if cell}
    names = options.classes
    if not names:
        numeric = all(_INTEGER.fullmatch(cell) for cell in present)
        names = tuple(sorted(present, key=int) if numeric else sorted(present))
    number = {name: column for column, name in enumerate(names)}
    y = np.full(len(cells), -1, dtype=np.int64)
    for item in np.flatnonzero(labelled).tolist():
        cell = cells[item]
        if cell not in number:
            raise outside_classes(cell, names, where(item))
        y[item] = number[cell]
    return Labels("classification", torch.from_numpy(y), labelled, len(names), names)


def _is_finite(number: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(number)))


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
