"""The paper's table with our numbers beside its own, in all forms that it is printed in."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from torch_grama.report.held_results import (
    OLD_MARK,
    HeldNumber,
    MetricScale,
    PaperNumber,
    RunResult,
    explain_old,
    read_paper_numbers,
    scale_of,
)
from torch_grama.report.rendering import render
from torch_grama.runs.words import align, format_count

Side = Literal["ours", "paper"]
BUDGETS = ("full", "short", "smoke")
"""From the largest to the smallest."""
_CSV_COLUMNS = (
    *("suite", "data", "model", "row", "metric", "mean", "deviation", "runs", "budget"),
    *("parameters", "hardware", "version", "paper_mean", "paper_deviation", "difference"),
    "absent",
)
_LATEX = {
    **{character: f"\\{character}" for character in "&%_#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    OLD_MARK: r"$^\dagger$",
    "μ": r"$\mu$",
    "Σ": r"$\Sigma$",
}
# A hyphen before a number, but neither within a word nor in an exponent.
_MINUS = re.compile(r"(?<![\w)])-(?=\d)")


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
        number = self.ours if side == "ours" else self.paper
        return number.mean if number else None

    @property
    def difference(self) -> float | None:
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
    models: Sequence[str] = (),  # rows to show although neither the paper nor we have a number
    sources: Mapping[str, str] | None = None,  # for a summary, the experiment of each column
    references: Mapping[str, Mapping[str, float]] | None = None,  # trivial scores by data set
    budget: str | None = None,  # left out: the largest of each cell
    notes: Sequence[str] = (),
    only: Sequence[str] = (),  # the only rows to show; a summary has them in this order
) -> Comparison:
    r"""Lays our numbers of one experiment beside the paper's."""
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


def to_markdown(comparison: Comparison) -> str:
    r"""The table in Markdown: ours (runs, budget), the paper's, the difference; best in bold."""
    head = ["Model"]
    for column in comparison.columns:
        head += [f"{column.heading} {column.scale.arrow}", "paper", "difference"]
    table = [head, ["---"] * len(head)]
    table += [_texts(comparison, row, "**{}**".format) for row in _all_rows(comparison)]
    escaped = [[text.replace("|", r"\|") for text in line] for line in table]
    lines = [f"| {' | '.join(line)} |" for line in escaped]
    notes = [text for note in comparison.notes for text in ("", note)]
    return "\n".join([f"### {comparison.title}", "", *lines, *notes]) + "\n"


def to_latex(comparison: Comparison) -> str:
    r"""The table in LaTeX, in the layout of the paper (``booktabs``); notes become comments."""
    count = len(comparison.columns)
    groups, rules = [], []
    for index, column in enumerate(comparison.columns):
        arrow = r"$\uparrow$" if column.scale.higher_is_better else r"$\downarrow$"
        groups.append(rf"\multicolumn{{3}}{{c}}{{{_latex(column.heading)} {arrow}}}")
        rules.append(rf"\cmidrule(lr){{{3 * index + 2}-{3 * index + 4}}}")
    lines = [
        *(f"% {text}" for text in (comparison.title, *comparison.notes)),
        r"\begin{tabular}{l" + "rrr" * count + "}",
        r"\toprule",
        " & " + " & ".join(groups) + r" \\",
        " ".join(rules),
        "Model & " + " & ".join(["ours & paper & diff."] * count) + r" \\",
    ]
    for part in (comparison.references, comparison.rows):
        lines += [r"\midrule"] * bool(part)
        for row in part:
            texts = _texts(comparison, row, r"\textbf{{{}}}".format, _latex)
            lines.append(" & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_csv(comparison: Comparison) -> str:
    r"""One line per cell: suite, data, model, metric, ours, the paper's, why ours is missing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for row in _all_rows(comparison):
        for cell in row.cells:
            line = [comparison.suite, cell.column.data, row.model, row.label, cell.column.metric]
            ours: list[object] = [None] * 7
            if cell.ours:
                number, run = cell.ours, cell.ours.runs[0]
                ours = [number.mean, number.deviation, len(number.runs), number.budget]
                ours += [run.parameters, run.hardware, number.old_version or run.version]
            paper = [cell.paper.mean, cell.paper.deviation] if cell.paper else [None] * 2
            writer.writerow([*line, *ours, *paper, cell.difference, cell.absent])
    return buffer.getvalue()


def to_html(comparison: Comparison) -> str:
    r"""The table as a page in the layout of the paper, which asks for nothing from anywhere; the
    best of each column in bold.

    Parameters and hardware of our numbers are shown when the pointer rests on them.
    """
    # words between backticks are code
    notes = [re.split("`([^`]+)`", note) for note in comparison.notes]
    return render("comparison.html.jinja", comparison=comparison, notes=notes)


def to_text(comparison: Comparison, width: int | None = None) -> str:
    r"""The table in columns of plain text, for a terminal or a log."""
    head = ["model"]
    for column in comparison.columns:
        head += [column.heading, "paper", "diff"]
    body = [_texts(comparison, row, "*{}".format) for row in _all_rows(comparison)]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    rule = ["-" * size for size in widths]
    split = len(comparison.references)
    table = [head, rule, *body[:split], *([rule] if split else []), *body[split:]]
    lines = [comparison.title]
    for first, last in _blocks(widths, width):
        block = [[line[0], *line[first:last]] for line in table]
        lines += ["", *align(block, right=range(1, 1 + last - first))]
    notes = [textwrap.fill(note, width) if width else note for note in comparison.notes]
    return "\n".join([*lines, "", *notes, "* best of its column"]) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "html": to_html,
}


def _blocks(widths: Sequence[int], limit: int | None) -> list[tuple[int, int]]:
    """Ranges of columns, three per data set, that fit into lines beside the first column."""
    if limit is None:
        return [(1, len(widths))]
    blocks: list[tuple[int, int]] = []
    room = 0
    for index in range(1, len(widths), 3):
        need = sum(widths[index : index + 3]) + 6
        if not blocks or need > room:
            blocks.append((index, index + 3))
            room = limit - widths[0] - need
        else:
            blocks[-1] = (blocks[-1][0], index + 3)
            room -= need
    return blocks


def _all_rows(comparison: Comparison) -> Sequence[Row]:
    return (*comparison.references, *comparison.rows)


def _texts(
    comparison: Comparison,
    row: Row,
    emphasize: Callable[[str], str],
    escape: Callable[[str], str] = str,
) -> list[str]:
    texts = [escape(row.label)]
    for index, cell in enumerate(row.cells):
        ours, paper = escape(cell.our_text), escape(cell.paper_text)
        texts += [
            emphasize(ours) if comparison.is_best(index, "ours", cell) else ours,
            emphasize(paper) if comparison.is_best(index, "paper", cell) else paper,
            escape(cell.difference_text),
        ]
    return texts


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return _MINUS.sub("$-$", escaped)
