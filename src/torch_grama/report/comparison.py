"""The paper's table with our numbers beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch_grama.report.held_results import HeldNumber, choose_number, explain_old
from torch_grama.report.metric_scale import MetricScale, scale_of
from torch_grama.report.paper_numbers import PaperNumber


@dataclass(frozen=True)
class Column:
    r"""A column of a comparison.

    Attributes:
        data: The data set.
        metric: Its metric.
        absent: Why nothing of ours can stand here, such as files that are not present; or empty.
        runs: How many runs each budget asks for, by its name.
    """

    data: str
    metric: str
    absent: str = ""
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
    r"""The paper's number and ours; each may be missing.

    Attributes:
        paper: The paper's number.
        ours: Ours.
        absent: Why ours is missing, or empty.
    """

    paper: PaperNumber | None
    ours: HeldNumber | None
    absent: str

    @property
    def difference(self) -> float | None:
        r"""Ours minus the paper's, where both are there."""
        if self.ours is None or self.paper is None:
            return None
        if self.ours.mean is None or self.paper.mean is None:
            return None
        return self.ours.mean - self.paper.mean


@dataclass(frozen=True)
class Row:
    r"""One model.

    Attributes:
        label: What the paper calls it, or our word for it.
        model: Our word for it.
        cells: One a column.
    """

    label: str
    model: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Comparison:
    r"""A table of the paper, and what was measured here.

    Attributes:
        suite: The name of the experiment.
        title: Its heading.
        columns: The data sets.
        rows: The models: those of the paper in its order, then the others.
        references: Rows of predictors that look at no graph, such as a constant.
        notes: Sentences to print below.
    """

    suite: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    references: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    def best_of_paper(self, column: int) -> float | None:
        r"""The best number that the paper prints in a column."""
        return self._best(
            column, [row.cells[column].paper for row in self.rows if row.cells[column].paper]
        )

    def best_of_ours(self, column: int) -> float | None:
        r"""The best of our numbers in a column."""
        return self._best(
            column, [row.cells[column].ours for row in self.rows if row.cells[column].ours]
        )

    def is_our_best(self, column: int, cell: Cell) -> bool:
        r"""Whether no other number of ours in the column is better; a missing one never is."""
        mean = cell.ours.mean if cell.ours else None
        return mean is not None and mean == self.best_of_ours(column)

    def is_best_of_paper(self, column: int, cell: Cell) -> bool:
        r"""Whether the paper prints no better number in the column; a missing one never is."""
        mean = cell.paper.mean if cell.paper else None
        return mean is not None and mean == self.best_of_paper(column)

    def _best(
        self, column: int, numbers: Sequence[PaperNumber | HeldNumber | None]
    ) -> float | None:
        values = [number.mean for number in numbers if number and number.mean is not None]
        if not values:
            return None
        return max(values) if self.columns[column].scale.higher_is_better else min(values)


def compare(
    suite: str,
    title: str,
    columns: Sequence[Column],
    paper: Sequence[PaperNumber],
    held: Sequence[HeldNumber],
    models: Sequence[str] = (),
    references: Mapping[str, Mapping[str, HeldNumber]] | None = None,
    budget: str | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    r"""Lays our numbers beside the paper's.

    Args:
        suite (str): The name of the experiment.
        title (str): The heading.
        columns (sequence of Column): The data sets.
        paper (sequence of PaperNumber): The paper's numbers.
        held (sequence of HeldNumber): Ours.
        models (sequence of str, optional): Our rows that the paper does not have; rows of which
            there is a number are added in any case. (default: none)
        references (mapping, optional): For each trivial predictor its number by data set.
            (default: none)
        budget (str, optional): The budget to show. (default: the largest of each cell)
        notes (sequence of str, optional): Sentences to print below. (default: none)
    """
    data = {column.data for column in columns}
    labels = {number.model: number.row for number in paper if number.data in data}
    ours = [n.model for n in held if n.suite == suite and n.data in data]
    for model in (*models, *ours):
        labels.setdefault(model, model)
    printed = {(number.model, number.data, number.metric): number for number in paper}
    rows = []
    for model, label in labels.items():
        cells = []
        for column in columns:
            number = choose_number(held, suite, column.data, model, budget)
            absent = "" if number else column.absent or "not run"
            cells.append(Cell(printed.get((model, column.data, column.metric)), number, absent))
        rows.append(Row(label, model, tuple(cells)))
    trivial = tuple(
        Row(
            name,
            name,
            tuple(
                Cell(None, by_data.get(column.data), column.absent or "no such reference")
                for column in columns
            ),
        )
        for name, by_data in (references or {}).items()
    )
    shown = [cell.ours for row in rows for cell in row.cells if cell.ours]
    below = (*notes, *filter(None, [explain_old(shown)]))
    return Comparison(suite, title, tuple(columns), tuple(rows), trivial, below)
