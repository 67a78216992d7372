"""The paper's table with our numbers beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from torch_grama.report.held_results import HeldNumber, RunResult, explain_old
from torch_grama.report.metric_scale import MetricScale, scale_of
from torch_grama.report.paper_numbers import PaperNumber, read_paper_numbers
from torch_grama.runs.words import format_count

Side = Literal["ours", "paper"]
BUDGETS = ("full", "short", "smoke")
"""From the largest to the smallest."""


@dataclass(frozen=True)
class Column:
    r"""A column of a comparison."""

    data: str  #: the data set
    metric: str  #: its metric
    #: why nothing of ours can stand here, such as files that are not present; or empty
    absent: str = ""
    #: how many runs each budget asks for, by its name
    runs: Mapping[str, int] = field(default_factory=dict)

    @property
    def scale(self) -> MetricScale:
        r"""How its numbers are printed."""
        return scale_of(self.metric)

    @property
    def heading(self) -> str:
        r"""The data set and the metric, or the metric alone where it names both."""
        label = self.scale.label
        return label if label.startswith(self.data) else f"{self.data} {label}"


@dataclass(frozen=True)
class Cell:
    r"""The paper's number and ours; each may be missing."""

    column: Column  #: where it stands
    paper: PaperNumber | None  #: the paper's number
    ours: HeldNumber | None  #: ours
    absent: str  #: why ours is missing, or empty

    def mean(self, side: Side) -> float | None:
        r"""The mean of one of the two, if it is there."""
        number = self.ours if side == "ours" else self.paper
        return number.mean if number else None

    @property
    def difference(self) -> float | None:
        r"""Ours minus the paper's, where both are there."""
        ours, paper = self.mean("ours"), self.mean("paper")
        return None if ours is None or paper is None else ours - paper

    @property
    def our_text(self) -> str:
        r"""Our number, a mark if it is old, its runs and budget; or why it is missing."""
        number = self.ours
        if number is None:
            return self.absent
        if number.mean is None:
            return f"validation {number.scale.text(number.validation)}"
        if not number.budget:
            return number.text
        count, wanted = len(number.runs), self.column.runs.get(number.budget, 0)
        runs = f"{count} of {wanted} runs" if count < wanted else format_count(count, "run")
        return f"{number.text} ({runs}, {number.budget})"

    @property
    def paper_text(self) -> str:
        r"""The paper's number with deviation, what it prints instead, or a dash."""
        number = self.paper
        if number is None or number.mean is None:
            return number.note or "-" if number else "-"
        return self.column.scale.text_with_deviation(number.mean, number.deviation)

    @property
    def difference_text(self) -> str:
        r"""The difference with its sign, or nothing where there is none."""
        difference = self.difference
        if difference is None:
            return ""
        return ("" if difference < 0 else "+") + self.column.scale.text(difference)


@dataclass(frozen=True)
class Row:
    r"""One model."""

    label: str  #: what the paper calls it, or our word for it
    model: str  #: our word for it
    cells: tuple[Cell, ...]  #: one per column


@dataclass(frozen=True)
class Comparison:
    r"""A table of the paper, and what was measured here."""

    suite: str  #: the name of the experiment
    title: str  #: its heading
    columns: tuple[Column, ...]  #: the data sets
    rows: tuple[Row, ...]  #: the models: those of the paper in its order, then the others
    #: rows of predictors that look at no graph, such as a constant
    references: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()  #: sentences to print below

    def best(self, column: int, side: Side) -> float | None:
        r"""The best number of ours, or of the paper's, in a column."""
        numbers = [row.cells[column].mean(side) for row in self.rows]
        return self.columns[column].scale.best(n for n in numbers if n is not None)

    def is_best(self, column: int, side: Side, cell: Cell) -> bool:
        r"""Whether none in the column is better; a number that is missing never is the best."""
        mean = cell.mean(side)
        return mean is not None and mean == self.best(column, side)


def compare(
    suite: str,
    title: str,
    columns: Sequence[Column],
    tables: Sequence[str],
    held: Sequence[HeldNumber],
    models: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    references: Mapping[str, Mapping[str, float]] | None = None,
    budget: str | None = None,
    notes: Sequence[str] = (),
    only: Sequence[str] = (),
) -> Comparison:
    r"""Lays our numbers of one experiment beside the paper's.

    Args:
        suite (str): The experiment.
        title (str): The heading.
        columns (sequence of Column): The data sets.
        tables (sequence of str): The tables of the paper.
        held (sequence of HeldNumber): All numbers that there are.
        models (sequence of str, optional): Rows to show although the paper has none; rows of which
            there is a number are added in any case. (default: none)
        sources (mapping, optional): For a summary, the experiment that a column is taken from.
            (default: :obj:`None`)
        references (mapping, optional): For each trivial predictor its score by data set.
            (default: none)
        budget (str, optional): The budget to show. (default: the largest of each cell)
        notes (sequence of str, optional): Sentences to print below. (default: none)
        only (sequence of str, optional): The only rows to show; a summary has them in this order,
            since the tables that it is taken from differ in theirs. (default: all)
    """
    data = {column.data for column in columns}
    paper = [number for table in tables for number in read_paper_numbers(table)]
    own = [
        replace(number, suite=suite)
        for number in held
        if number.suite == (sources or {}).get(number.data, suite)
    ]
    labels = {number.model: number.row for number in paper if number.data in data}
    for model in (*models, *(number.model for number in own if number.data in data)):
        labels.setdefault(model, model)
    if only:
        order = only if sources else labels
        labels = {model: labels[model] for model in order if model in labels and model in only}
    printed = {(number.model, number.data, number.metric): number for number in paper}
    trivial = [
        HeldNumber(suite, "", column.data, name, column.metric, (RunResult(score, score),))
        for name, by_data in (references or {}).items()
        for column in columns
        if (score := by_data.get(column.data)) is not None
    ]

    def lay(model: str, label: str, missing: str) -> Row:
        cells = []
        for column in columns:
            place = (model, column.data, column.metric)
            number = choose_number([*own, *trivial], suite, column.data, model, budget)
            absent = "" if number else column.absent or missing
            cells.append(Cell(column, printed.get(place), number, absent))
        return Row(label, model, tuple(cells))

    rows = tuple(lay(model, label, "not run") for model, label in labels.items())
    below = tuple(lay(name, name, "no such reference") for name in references or {})
    shown = [cell.ours for row in rows for cell in row.cells if cell.ours]
    texts = (*notes, *filter(None, [explain_old(shown)]))
    return Comparison(suite, title, tuple(columns), rows, below, texts)


def choose_number(
    numbers: Sequence[HeldNumber], suite: str, data: str, model: str, budget: str | None = None
) -> HeldNumber | None:
    r"""Returns the number of one cell: of the wanted budget, or of the largest that was run; one
    that cost nothing has no budget, and counts for all.
    """
    found = [n for n in numbers if (n.suite, n.data, n.model) == (suite, data, model)]
    if budget:
        found = [number for number in found if number.budget in (budget, "")]
    order = {name: place for place, name in enumerate(BUDGETS)}
    return min(found, key=lambda number: order.get(number.budget, len(order)), default=None)
