"""From tensors to the plain numbers of a result file."""

from __future__ import annotations

import math
from typing import cast

from torch import Tensor

# Digits that are kept: more than any plot shows, and half the size of a full float.
_DIGITS = 5

# Lists of finite numbers; a list that may hold None, for what is infinite, says so in its type.
Row = list[float]
Matrix = list[list[float]]
Cube = list[list[list[float]]]


def plain_number(value: Tensor | float) -> float:
    r"""A finite number with a few significant digits.

    Raises:
        ValueError: If it is infinite or undefined.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"Expected a finite number (got {number}); check the model's weights")
    rounded = float(f"{number:.{_DIGITS}g}")
    return rounded if math.isfinite(rounded) else number  # the largest numbers round to infinity


def plain_or_none(value: Tensor | float) -> float | None:
    r"""Likewise, :obj:`None` for what is infinite or undefined."""
    return plain_number(value) if math.isfinite(float(value)) else None


def plain_row(values: Tensor) -> Row:
    r"""A list of finite numbers."""
    return [plain_number(value) for value in values.tolist()]


def plain_matrix(values: Tensor) -> Matrix:
    r"""A list of lists of finite numbers."""
    return [plain_row(row) for row in values]


def plain_cube(values: Tensor) -> Cube:
    r"""A list of such lists."""
    return [plain_matrix(matrix) for matrix in values]


def plain_flags(values: Tensor) -> list[bool]:
    r"""A list of booleans."""
    return cast(list[bool], values.tolist())
