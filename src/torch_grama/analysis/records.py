"""From tensors to the plain numbers of a result file, and from such a file back to records."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from torch import Tensor

# Digits that are kept: more than any plot shows, and half the size of a full float.
_DIGITS = 5

# Lists of finite numbers; a list that may hold None, for what is infinite, says so in its type.
Row = list[float]
Matrix = list[list[float]]
Cube = list[list[list[float]]]


def plain_number(value: Tensor | float) -> float:
    r"""A finite number with a few significant digits; an error for any other."""
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


def read_record(kind: Any, value: Any, place: str) -> Any:
    r"""Turns what JSON holds into a value of the annotated type, such as a dataclass; a
    :class:`ValueError` names the place of what does not fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = {field.name: get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}
        missing, unknown = sorted(set(hints) - set(value)), sorted(set(value) - set(hints))
        if missing or unknown:
            raise ValueError(
                f"expected the entries of {kind.__name__} at {place} "
                f"(missing: {missing or 'none'}, unknown: {unknown or 'none'})"
            )
        return kind(**{key: read_record(hints[key], value[key], f"{place}.{key}") for key in hints})
    if origin in (Union, types.UnionType):
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return None if value is None else read_record(inner, value, place)
    if origin is list and isinstance(value, list):
        return [read_record(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {k: read_record(arguments[1], item, f"{place}.{k}") for k, item in value.items()}
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    name = kind.__name__ if origin is None else str(kind)
    raise ValueError(f"expected {name} at {place} (got {type(value).__name__})")
