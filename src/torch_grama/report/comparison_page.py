"""A comparison as a page: one HTML file that asks for nothing from anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from torch_grama.report.comparison import Cell, Column, Comparison, Row
from torch_grama.report.comparison_text import (
    describe_difference,
    describe_ours,
    describe_paper,
)

TEMPLATE = "templates/comparison.html"


def to_html(comparison: Comparison) -> str:
    r"""The table as a page in the layout of the paper; the best of each column in bold.

    Parameters and hardware of our numbers are shown when the pointer rests on them.
    """
    template = Template((files(__package__) / TEMPLATE).read_text(encoding="utf-8"))
    notes = "\n".join(f"<p>{_prose(note)}</p>" for note in comparison.notes)
    return template.substitute(
        title=escape(comparison.title),
        suite=escape(comparison.suite),
        head=_head(comparison.columns),
        body="\n".join(
            f'<tbody class="{name}">\n{_rows(comparison, rows)}\n</tbody>'
            for name, rows in (("trivial", comparison.references), ("models", comparison.rows))
            if rows
        ),
        notes=notes,
    )


def _prose(text: str) -> str:
    """Text in which words between backticks are code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _head(columns: Sequence[Column]) -> str:
    groups = "".join(
        f'<th colspan="3" scope="colgroup">{escape(column.heading)} '
        f"{'↑' if column.scale.higher_is_better else '↓'}</th>"
        for column in columns
    )
    kinds = '<th scope="col">ours</th><th scope="col">paper</th><th scope="col">difference</th>'
    return (
        f'<tr><th rowspan="2" scope="col">Model</th>{groups}</tr>\n<tr>{kinds * len(columns)}</tr>'
    )


def _rows(comparison: Comparison, rows: Sequence[Row]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{escape(row.label)}</th>'
        + "".join(_cells(comparison, index, cell) for index, cell in enumerate(row.cells))
        + "</tr>"
        for row in rows
    )


def _cells(comparison: Comparison, index: int, cell: Cell) -> str:
    column = comparison.columns[index]
    ours, paper, title = [], [], ""
    if cell.ours is None:
        ours.append("absent")
    elif comparison.is_our_best(index, cell):
        ours.append("best")
    if comparison.is_best_of_paper(index, cell):
        paper.append("best")
    if cell.ours and cell.ours.runs[0].parameters:
        run = cell.ours.runs[0]
        title = f"{run.parameters:,} parameters, {run.hardware}"
    return (
        _cell(describe_ours(cell, column), ["ours", *ours], title)
        + _cell(describe_paper(cell, column), paper)
        + _cell(describe_difference(cell, column), [])
    )


def _cell(text: str, classes: Sequence[str], title: str = "") -> str:
    kind = f' class="{" ".join(classes)}"' if classes else ""
    hint = f' title="{escape(title, quote=True)}"' if title else ""
    return f"<td{kind}{hint}>{escape(text)}</td>"
