"""What all figures of the page have in common: a specification that the browser draws.

Colours are tokens, such as ``@0`` for the first of the palette, which the page replaces by those of
the theme; every series has a dash or a sign of its own besides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch_grama.runs.record import Matrix, Row, round_off

Trace = dict[str, object]
View = tuple[str, list[Trace]]

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SIGNS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
DIVERGING, SEQUENTIAL = "@diverging", "@sequential"


@dataclass(frozen=True)
class Figure:
    r"""A figure of the page."""

    name: str  #: its identifier in the page, made by this program alone
    title: str  #: its heading
    text: str  #: what it shows, in words, for those who do not see it
    data: Sequence[Trace]  #: the traces
    layout: Mapping[str, object] = field(default_factory=dict)  #: the layout
    #: other contents of the same figure, each with a label, for a slider or a list
    views: Sequence[View] = ()
    control: str = ""  #: how a view is chosen: ``"slider"`` or ``"list"``; empty without views
    height: int = 340  #: its height in pixels

    def to_dict(self) -> dict[str, object]:
        r"""What the browser is given."""
        return {
            "data": list(self.data),
            "layout": self.layout,
            "views": [{"label": label, "data": list(data)} for label, data in self.views],
        }


def color(index: int) -> str:
    r"""The token of a colour of the palette."""
    return f"@{index % 7}"


def line(
    name: str,
    x: Sequence[object],
    y: Sequence[float | None],
    index: int,
    dash: str | None = None,
    **options: object,
) -> Trace:
    r"""A curve in the colour and with the dash of a series."""
    dash = DASHES[index % len(DASHES)] if dash is None else dash
    style = {"color": color(index), "width": 2.2, "dash": dash}
    curve = {"name": plain(name), "x": list(x), "y": list(y), "line": style}
    return {"type": "scatter", "mode": "lines", **curve, **options}


def marks(
    name: str, x: Sequence[object], y: Sequence[object], marker: object, **options: object
) -> Trace:
    r"""Points with the sign of a series."""
    points = {"name": plain(name), "x": list(x), "y": list(y), "marker": marker}
    return {"type": "scatter", "mode": "markers", **points, **options}


def sign(index: int, size: int, **options: object) -> dict[str, object]:
    r"""The sign of a series in its colour."""
    return {"symbol": SIGNS[index % len(SIGNS)], "size": size, "color": color(index), **options}


def guide(name: str, x: Sequence[float], y: Sequence[float]) -> Trace:
    r"""A line that belongs to no series, to compare with."""
    style = {"line": {"color": "@muted", "width": 1.5}, "hoverinfo": "skip", "showlegend": False}
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), **style}


def heat_map(
    x: Sequence[str], y: Sequence[str], z: Matrix, bounds: tuple[float, float], **options: object
) -> Trace:
    r"""Numbers as colours."""
    bar = {"thickness": 12, "outlinewidth": 0}
    cells = {"x": list(x), "y": list(y), "z": z, "zmin": bounds[0], "zmax": bounds[1]}
    return {"type": "heatmap", **cells, "xgap": 1, "ygap": 1, "colorbar": bar, **options}


def axis(title: str, **options: object) -> dict[str, object]:
    r"""An axis with a title."""
    return {"title": {"text": plain(title), "standoff": 6}, **options}


def log_scale(values: Sequence[float]) -> dict[str, object]:
    r"""A logarithmic axis with a tick at every power of ten, or every second of many."""
    decades = math.log10(max(values) / min(values)) if values else 0
    return {"type": "log", "exponentformat": "power", "dtick": 1 if decades < 8 else 2}


def scale_for(values: Sequence[float]) -> dict[str, object]:
    r"""A logarithmic axis for positive values that span more than two powers of ten."""
    if values and min(values) > 0 and max(values) / min(values) > 100:
        return log_scale(values)
    return {}


def plain(text: str) -> str:
    r"""A text in which the drawing library sees no mark-up."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def number(value: float | None, digits: int = 3) -> str:
    r"""A number as a person reads it."""
    if value is None:
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def numbers(values: Sequence[float | None]) -> str:
    r"""The first of several numbers."""
    return ", ".join(number(value) for value in values[:8])


def span(values: Sequence[float | None]) -> str:
    r"""The first and the last number of a list that has some."""
    there = known(values)
    return f"from {number(there[0])} to {number(there[-1])}"


def known(values: Sequence[float | None]) -> list[float]:
    r"""The numbers of a list without its gaps."""
    return [value for value in values if value is not None]


def means_of(rows: Matrix) -> Row:
    r"""The mean of each column of a matrix, without its gaps."""
    columns = [known(column) for column in zip(*rows, strict=True)]
    return [round_off(sum(there) / len(there)) if there else None for there in columns]
