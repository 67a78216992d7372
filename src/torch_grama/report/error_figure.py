"""A picture of error against distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_grama.report.error_table import ErrorRow, ErrorTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which all kinds of colour vision tell apart; the marks differ too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P")
EMPHASIS = ("#D55E00", "o")
LEAST_GAP = 0.055
"""Least distance between two labels, as a share of the height."""


def draw_errors(table: ErrorTable, path: Path, title: str, emphasize: str = "") -> None:
    r"""Draws one line per model and one a trivial predictor, named at their right ends.

    Args:
        table (ErrorTable): The errors.
        path (Path): The picture; its suffix says the format.
        title (str): The heading.
        emphasize (str, optional): The label of the row to stand out. (default: none)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontsize=12, pad=12)
    axes.set_xlabel("hops from source to target")
    axes.set_ylabel("mean squared error at the target (log scale)")
    axes.set_xticks(table.distances)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", which="major", color="0.9", linewidth=0.8)
    ends: list[tuple[ErrorRow, str]] = []
    style: dict[str, Any]
    styles = cycle(zip(COLOURS, MARKS, strict=True))
    for row in (*_distinct(table.references), *table.models):
        points = sorted(row.errors.items())
        if row.is_trivial:
            colour, style = "0.35", {"color": "0.5", "linestyle": (0, (4, 3)), "linewidth": 1.2}
        else:
            stands_out = row.label == emphasize
            colour, mark = EMPHASIS if stands_out else next(styles)
            width = 2.6 if stands_out else 1.6
            style = {"color": colour, "marker": mark, "markersize": 6, "linewidth": width}
        axes.plot([hops for hops, _ in points], [error for _, error in points], **style)
        ends.append((row, colour))
    first, last = table.distances[0], table.distances[-1]
    margin = 0.05 * max(1, last - first)
    axes.set_xlim(first - margin, last + 5.5 * margin)
    _name_lines(axes, [end for end in ends if end[0].errors], last + 0.6 * margin, emphasize)
    figure.savefig(path, dpi=150)


def _distinct(rows: Sequence[ErrorRow]) -> list[ErrorRow]:
    """Without those that lie on an earlier one."""
    return [
        row
        for place, row in enumerate(rows)
        if not any(
            earlier.errors.keys() == row.errors.keys()
            and all(math.isclose(earlier.errors[d], row.errors[d]) for d in row.errors)
            for earlier in rows[:place]
        )
    ]


def _name_lines(axes: Axes, ends: Sequence[tuple[ErrorRow, str]], x: float, emphasize: str) -> None:
    to_share = axes.transScale + axes.transLimits  # data to shares of width and height
    errors = [row.errors[max(row.errors)] for row, _ in ends]
    heights = [float(to_share.transform((1.0, error))[1]) for error in errors]
    for (row, colour), height in zip(ends, spread(heights, LEAST_GAP), strict=True):
        axes.text(
            x,
            height,
            row.label,
            color=colour,
            fontsize=10,
            fontweight="bold" if row.label == emphasize else "normal",
            verticalalignment="center",
            transform=axes.get_xaxis_transform(),
        )


def spread(heights: Sequence[float], gap: float, top: float = 1.0) -> list[float]:
    r"""Moves heights apart so that no two are nearer than a gap; their order is kept.

    Args:
        heights (sequence of float): Where labels would stand.
        gap (float): The least distance.
        top (float, optional): The greatest height allowed. (default: :obj:`1.0`)

    Example:
        >>> spread([0.5, 0.5, 0.9], 0.1)
        [0.45, 0.55, 0.9]
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    rising = [min(heights[index], top) for index in order]
    # the mean of moving all up and moving all down keeps the gap, and groups where they were
    up = accumulate(rising, lambda below, height: max(height, below + gap))
    down = [*accumulate(rising[::-1], lambda above, height: min(height, above - gap))][::-1]
    middle = [(high + low) / 2 for high, low in zip(up, down, strict=True)]
    falling = accumulate(
        middle[::-1], lambda above, height: min(height, above - gap), initial=top + gap
    )
    placed = dict(zip(order[::-1], [*falling][1:], strict=True))
    return [placed[index] for index in range(len(heights))]
