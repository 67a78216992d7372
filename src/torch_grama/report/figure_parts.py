"""What all figures of the page have in common: a specification that the browser draws.

Colours are numbers of the palette, which the page replaces by those of the theme; every series has
a dash or a sign of its own besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch_grama.runs.safe_files import Matrix, Row, round_off

Trace = dict[str, object]
View = tuple[str, list[Trace]]

# Lengths of strokes and gaps.
DASHES = ("", "7 4", "2 3", "8 3 2 3", "13 4", "13 3 2 3")
SIGNS = ("circle", "square", "diamond", "up", "plus", "x", "star", "down")
_COLORS = 7


@dataclass(frozen=True)
class Figure:
    r"""A figure of the page."""

    name: str  #: its identifier in the page, made by this program alone
    title: str  #: its heading
    text: str  #: what it shows, in a line
    data: Sequence[Trace]  #: the traces
    x: Mapping[str, object] = field(default_factory=dict)  #: the horizontal axis
    y: Mapping[str, object] = field(default_factory=dict)  #: the vertical axis
    words: str = ""  #: its main numbers, for those who do not see it
    #: other contents of the same figure, each with a label, for a slider or a list
    views: Sequence[View] = ()
    control: str = ""  #: how a view is chosen: ``"slider"`` or ``"list"``; empty without views
    height: int = 340  #: its height in pixels

    def __post_init__(self) -> None:
        if len(self.views) < 2:  # nothing to choose from
            object.__setattr__(self, "views", ())
            object.__setattr__(self, "control", "")

    def to_dict(self) -> dict[str, object]:
        views = [{"label": label, "data": list(data)} for label, data in self.views]
        return {"data": list(self.data), "x": self.x, "y": self.y, "views": views}


def line(
    name: str,
    x: Sequence[object],
    y: Sequence[float | None],
    index: int,
    dash: str | None = None,
    **options: object,
) -> Trace:
    r"""A curve in the colour and with the dash of a series; with a ``sign`` at every point, if one
    is named, ``errors`` above and below, and ``text`` for the pointer.
    """
    dash = DASHES[index % len(DASHES)] if dash is None else dash
    curve = {"name": name, "x": list(x), "y": list(y), "color": index % _COLORS, "dash": dash}
    return {"kind": "line", **curve, **options}


def marks(
    name: str, x: Sequence[object], y: Sequence[object], index: int, size: int, **options: object
) -> Trace:
    r"""Points with the sign and the colour of a series."""
    style = {"color": index % _COLORS, "sign": sign(index), "size": size}
    return {"kind": "marks", "name": name, "x": list(x), "y": list(y), **style, **options}


def sign(index: int) -> str:
    return SIGNS[index % len(SIGNS)]


def guide(name: str, x: Sequence[float], y: Sequence[float]) -> Trace:
    r"""A line that belongs to no series, to compare with."""
    return {"kind": "guide", "name": name, "x": list(x), "y": list(y)}


def heat_map(
    x: Sequence[str], y: Sequence[str], z: Matrix, bounds: tuple[float, float], **options: object
) -> Trace:
    r"""Numbers as colours; around zero if the bounds are, else from nothing to all. ``text`` is
    what stands in the cells, and ``unit`` what the numbers are counted in.
    """
    return {"kind": "cells", "x": list(x), "y": list(y), "z": z, "bounds": bounds, **options}


def axis(title: str, **options: object) -> dict[str, object]:
    r"""An axis with a title. ``log`` makes it logarithmic, ``whole`` has no tick between whole
    numbers, ``zero`` includes it, and ``span`` says from where to where it goes.
    """
    return {"title": title, **options}


def scale_for(values: Sequence[float]) -> dict[str, object]:
    r"""A logarithmic axis for positive values that span more than two powers of ten."""
    return {"log": bool(values) and min(values) > 0 and max(values) / min(values) > 100}


def number(value: float | None, digits: int = 3) -> str:
    r"""A number as a person reads it."""
    if value is None:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def numbers(values: Sequence[float | None]) -> str:
    return ", ".join(number(value) for value in values[:8])


def span(values: Sequence[float | None]) -> str:
    there = known(values)
    return f"from {number(there[0])} to {number(there[-1])}"


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def means_of(rows: Matrix) -> Row:
    r"""The mean of each column of a matrix, without its gaps."""
    columns = [known(column) for column in zip(*rows, strict=True)]
    return [round_off(sum(there) / len(there)) if there else None for there in columns]
