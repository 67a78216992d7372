"""Errors of models against the distance that information must travel: table, picture, page."""

from __future__ import annotations

import base64
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_grama.report.held_results import HeldNumber, RunResult
from torch_grama.report.rendering import render
from torch_grama.runs.words import align

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Can a model carry a value along a line?"
# Okabe and Ito's colours, which all kinds of colour vision tell apart; the marks differ too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P")
EMPHASIS = ("#D55E00", "o")
LEAST_GAP = 0.055
"""Least distance between two labels, as a share of the height."""


@dataclass(frozen=True)
class ErrorRow:
    r"""One model, or one predictor that looks at no graph."""

    label: str  #: what it is called
    #: distance to test error, the mean over runs; a distance that was not run is missing
    errors: Mapping[int, float]
    #: distance to its runs; empty for a trivial predictor
    runs: Mapping[int, tuple[RunResult, ...]]

    @property
    def is_trivial(self) -> bool:
        r"""Whether nothing was trained for it."""
        return not self.runs


@dataclass(frozen=True)
class ErrorTable:
    r"""Errors against distance."""

    distances: tuple[int, ...]  #: the columns, from near to far
    rows: tuple[ErrorRow, ...]  #: trivial predictors first, then the models in their order

    @property
    def models(self) -> tuple[ErrorRow, ...]:
        return tuple(row for row in self.rows if not row.is_trivial)

    @property
    def references(self) -> tuple[ErrorRow, ...]:
        return tuple(row for row in self.rows if row.is_trivial)

    def is_best(self, row: ErrorRow, distance: int) -> bool:
        r"""Whether a row has an error at a distance, and no row a lower one."""
        known = [other.errors[distance] for other in self.rows if distance in other.errors]
        return distance in row.errors and row.errors[distance] == min(known)

    def ratio(self, above: str, below: str, distance: int) -> float | None:
        r"""How many times the error of one row is that of another, where both are known."""
        found = {row.label: row.errors.get(distance) for row in self.rows}
        upper, lower = found.get(above), found.get(below)
        return upper / lower if upper is not None and lower else None


def build_error_table(
    held: Sequence[HeldNumber],
    distances: Mapping[str, int],  # of each data set; others are left out
    labels: Mapping[str, str],  # what each row is called, in the order of the table
    references: Mapping[str, Mapping[str, float]],  # errors of each trivial predictor by data set
    seeds: Collection[int] = (),  # those to count; left out: all
) -> ErrorTable:
    rows = [
        ErrorRow(name, {distances[d]: e for d, e in by_data.items() if d in distances}, {})
        for name, by_data in references.items()
    ]
    for model, label in labels.items():
        runs: dict[int, tuple[RunResult, ...]] = {}
        errors: dict[int, float] = {}
        for number in held:
            if number.model == model and number.data in distances:
                counted = [run for run in number.runs if not seeds or run.seed in seeds]
                tests = {run: run.test for run in counted if run.test is not None}
                if tests:
                    runs[distances[number.data]] = tuple(tests)
                    errors[distances[number.data]] = statistics.fmean(tests.values())
        if runs:
            rows.append(ErrorRow(label, errors, runs))
    return ErrorTable(tuple(sorted(set(distances.values()))), tuple(rows))


def format_error(error: float | None) -> str:
    r"""Prints an error: three digits, the scientific form below 0.001, a dash for none."""
    if error is None:
        return "-"
    return f"{error:.3g}" if error >= 1e-3 else f"{error:.1e}"


def format_error_table(table: ErrorTable) -> str:
    r"""Returns the table as plain text, the lowest error of each distance starred."""
    lines = [["mean squared error", *(f"{distance} hops" for distance in table.distances)]]
    for row in table.rows:
        errors = [
            "*" * table.is_best(row, distance) + format_error(row.errors.get(distance))
            for distance in table.distances
        ]
        lines.append([row.label, *errors])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(align(lines, right=range(1, len(widths)))) + "\n"


def build_demo_page(
    table: ErrorTable,
    picture: Path,
    base: Path,
    finding: str,
    reading: str,
    settings: Mapping[str, str],
    footer: str,
) -> str:
    r"""Returns the page as one file of HTML that loads nothing; the picture is part of it, and run
    folders are named as seen from the folder of the page.
    """

    def seen_from_there(path: Path) -> Path:
        return path.relative_to(base) if path.is_relative_to(base) else path

    return render(
        "demo.html.jinja",
        title=TITLE,
        finding=finding,
        reading=reading,
        settings=settings,
        footer=footer,
        table=table,
        picture=base64.b64encode(picture.read_bytes()).decode("ascii"),
        format_error=format_error,
        place=seen_from_there,
    )


def draw_errors(table: ErrorTable, path: Path, title: str, emphasize: str = "") -> None:
    r"""Draws one line per model and one a trivial predictor, named at their right ends."""
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
