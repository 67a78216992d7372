"""What all figures of the page have in common: a specification that the browser draws.

Colours are tokens, such as ``@0`` for the first of the palette, which the page replaces by those of
the theme; every series has a dash or a sign of its own besides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

Trace = dict[str, object]
Layout = dict[str, object]

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SIGNS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
DIVERGING, SEQUENTIAL = "@diverging", "@sequential"


@dataclass(frozen=True)
class Figure:
    r"""A figure of the page.

    Attributes:
        name: Its identifier in the page, made by this program alone.
        title: Its heading.
        text: What it shows, in words, for those who do not see it.
        data: The traces.
        layout: The layout.
        views: Other contents of the same figure, each with a label, for a slider or a list.
        control: How a view is chosen: ``"slider"`` or ``"list"``; empty without views.
        height: Its height in pixels.
    """

    name: str
    title: str
    text: str
    data: Sequence[Trace]
    layout: Layout = field(default_factory=dict)
    views: Sequence[tuple[str, Sequence[Trace]]] = ()
    control: str = ""
    height: int = 340

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
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": list(x),
        "y": list(y),
        "line": {
            "color": color(index),
            "width": 2.2,
            "dash": DASHES[index % len(DASHES)] if dash is None else dash,
        },
        **options,
    }


def axis(title: str, **options: object) -> dict[str, object]:
    r"""An axis with a title."""
    return {"title": {"text": plain(title), "standoff": 6}, **options}


def log_scale(values: Sequence[float]) -> dict[str, object]:
    r"""A logarithmic axis with a tick at every power of ten, or every second of many."""
    decades = math.log10(max(values) / min(values)) if values else 0
    return {"type": "log", "exponentformat": "power", "dtick": 1 if decades < 8 else 2}


def scale_for(values: Sequence[float | None]) -> dict[str, object]:
    r"""A logarithmic axis for positive values that span more than two powers of ten."""
    there = [value for value in values if value is not None]
    if there and min(there) > 0 and max(there) / min(there) > 100:
        return log_scale(there)
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
