"""A JSON object that anyone may have written: what has another form than asked for is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch_grama.runs.words import clip

Row = list[float | None]
Matrix = list[Row]
Cube = list[Matrix]

FIRST_EPOCH = "first_epoch"
"""Marks files whose epochs count from 1."""
# More entries than any figure or table shows.
_MAX = 4096


class Record:
    r"""Reads a JSON object whose contents may have any form; anything else counts as an empty one.
    Numbers are rounded to four digits within lists, which is more than a figure shows.
    """

    def __init__(self, value: object = None) -> None:
        self._content = value if isinstance(value, dict) else {}

    def __bool__(self) -> bool:
        return bool(self._content)

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def number(self, name: str) -> float | None:
        r"""A finite number."""
        return as_number(self._content.get(name))

    def word(self, name: str, default: str = "", length: int = 300) -> str:
        r"""A text of bounded length."""
        value = self._content.get(name)
        return clip(value if isinstance(value, str) else default, length)

    def is_true(self, name: str) -> bool:
        r"""Whether something is said to be so."""
        return self._content.get(name) is True

    def part(self, name: str) -> Record:
        r"""An inner object; empty if there is none."""
        return Record(self._content.get(name))

    def parts(self, name: str) -> list[Record]:
        r"""The objects in a list."""
        return [Record(item) for item in self.items(name) if isinstance(item, dict)]

    def items(self, name: str) -> list[object]:
        r"""A list; empty if there is none."""
        return _items(self._content.get(name))

    def row(self, name: str) -> Row:
        r"""A list of numbers, :obj:`None` for what is none; empty if there is no list."""
        return _row(self._content.get(name))

    def matrix(self, name: str) -> Matrix:
        r"""A list of equally long lists of numbers; empty if there is none."""
        return _matrix(self._content.get(name))

    def cube(self, name: str) -> Cube:
        r"""A list of matrices of one shape; empty if there is none."""
        matrices = [_matrix(item) for item in self.items(name)]
        shapes = {(len(matrix), len(matrix[0])) for matrix in matrices if matrix}
        return matrices if all(matrices) and len(shapes) == 1 else []


def count_from_one(content: dict[str, Any], name: str) -> dict[str, Any]:
    r"""Returns what a file says with an epoch that counts from 1; in versions before 0.2 the first
    epoch was 0, and files had no mark.
    """
    epoch = as_number(content.get(name))
    if epoch is None or content.get(FIRST_EPOCH) == 1:
        return content
    return content | {name: int(epoch) + 1, FIRST_EPOCH: 1}


def as_number(value: object) -> float | None:
    r"""A finite number, or :obj:`None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def round_off(value: float | None) -> float | None:
    r"""Four digits: more than a figure shows."""
    return None if value is None else float(f"{value:.4g}")


def _items(value: object) -> list[object]:
    return value[:_MAX] if isinstance(value, list) else []


def _row(value: object) -> Row:
    return [round_off(as_number(item)) for item in _items(value)]


def _matrix(value: object) -> Matrix:
    rows = [_row(item) for item in _items(value)]
    return rows if len({len(row) for row in rows}) == 1 else []
