"""Errors of several models against the distance that information must travel, as a table and as a
self-contained page."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_grama.report.held_results import HeldNumber, RunResult
from torch_grama.report.rendering import render
from torch_grama.runs.words import align


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
        r"""The rows that were trained."""
        return tuple(row for row in self.rows if not row.is_trivial)

    @property
    def references(self) -> tuple[ErrorRow, ...]:
        r"""The rows that were not."""
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
    distances: Mapping[str, int],
    labels: Mapping[str, str],
    references: Mapping[str, Mapping[str, float]],
    seeds: Collection[int] = (),
) -> ErrorTable:
    r"""Arranges the numbers that are held.

    Args:
        held (sequence of HeldNumber): The numbers.
        distances (mapping): Data set to its distance; other data sets are left out.
        labels (mapping): Row to what it is called, in the order of the table.
        references (mapping): Trivial predictor to its error by data set.
        seeds (collection of int, optional): The seeds to count. (default: all)
    """
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


@dataclass(frozen=True)
class DemoText:
    r"""The words of the page."""

    title: str  #: the heading
    lead: str  #: what is asked of the models
    finding: str  #: what was measured, in a sentence
    reading: str  #: what must be known to judge it
    trivial: str  #: what the trivial predictors are
    settings: Mapping[str, str]  #: name to value of what all runs have in common
    commands: Sequence[str]  #: lines for a terminal
    footer: str  #: the last line


def build_demo_page(table: ErrorTable, picture: Path, text: DemoText, base: Path) -> str:
    r"""Returns the page as HTML: one file, which asks for nothing from anywhere.

    Args:
        table (ErrorTable): The errors.
        picture (Path): A PNG of them, which becomes part of the page.
        text (DemoText): The words.
        base (Path): The folder of the page; run folders are named as seen from there.
    """

    def seen_from_there(path: Path) -> Path:
        return path.relative_to(base) if path.is_relative_to(base) else path

    return render(
        "demo.html.jinja",
        text=text,
        table=table,
        picture=base64.b64encode(picture.read_bytes()).decode("ascii"),
        format_error=format_error,
        place=seen_from_there,
    )
