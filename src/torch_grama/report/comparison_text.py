"""A comparison as Markdown, LaTeX, CSV or plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from torch_grama.report.comparison import Cell, Column, Comparison, Row


def to_markdown(comparison: Comparison) -> str:
    r"""The table in Markdown: ours (runs, budget), the paper's, the difference; best in bold."""
    head = ["Model"]
    for column in comparison.columns:
        arrow = "↑" if column.scale.higher_is_better else "↓"
        head += [f"{column.data} {column.scale.label} {arrow}", "paper", "difference"]
    lines = [f"### {comparison.title}", "", _line(head), _line(["---"] * len(head))]
    lines += [_line(_texts(comparison, row, _bold)) for row in _all_rows(comparison)]
    for note in comparison.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def to_latex(comparison: Comparison) -> str:
    r"""The table in LaTeX, in the layout of the paper (``booktabs``)."""
    count = len(comparison.columns)
    heads, groups = [], []
    for column in comparison.columns:
        arrow = r"$\uparrow$" if column.scale.higher_is_better else r"$\downarrow$"
        groups.append(
            rf"\multicolumn{{3}}{{c}}{{{_latex(column.data)} ({column.scale.label} {arrow})}}"
        )
        heads.append(r"ours & paper & diff.")
    lines = [
        r"\begin{tabular}{l" + "rrr" * count + "}",
        r"\toprule",
        "Model & " + " & ".join(groups) + r" \\",
        " & " + " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for row in _all_rows(comparison):
        texts = _texts(comparison, row, lambda text: rf"\textbf{{{text}}}", _latex)
        lines.append(" & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


CSV_COLUMNS = (
    *("suite", "data", "model", "row", "metric", "mean", "deviation", "runs", "budget"),
    *("parameters", "hardware", "paper_mean", "paper_deviation", "difference", "absent"),
)


def to_csv(comparison: Comparison) -> str:
    r"""One line a cell: suite, data, model, metric, ours, the paper's, and why ours is missing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in _all_rows(comparison):
        for column, cell in zip(comparison.columns, row.cells, strict=True):
            ours, paper = cell.ours, cell.paper
            writer.writerow(
                [comparison.suite, column.data, row.model, row.label, column.metric]
                + (
                    [
                        _blank(ours.mean),
                        _blank(ours.deviation),
                        len(ours.runs),
                        ours.budget,
                        ours.runs[0].parameters,
                        ours.runs[0].hardware,
                    ]
                    if ours
                    else [""] * 6
                )
                + ([_blank(paper.mean), _blank(paper.deviation)] if paper else ["", ""])
                + [_blank(cell.difference), cell.absent]
            )
    return buffer.getvalue()


def to_text(comparison: Comparison) -> str:
    r"""The table in columns of plain text, for a terminal or a log."""
    head = ["model"]
    for column in comparison.columns:
        head += [f"{column.data} {column.scale.label}", "paper", "diff"]
    body = [_texts(comparison, row, lambda text: f"*{text}") for row in _all_rows(comparison)]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [comparison.title, ""]
    for line in [head, ["-" * width for width in widths], *body]:
        cells = [line[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", *comparison.notes, "* best of its column"]) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}


def _all_rows(comparison: Comparison) -> Sequence[Row]:
    return (*comparison.references, *comparison.rows)


def _texts(
    comparison: Comparison,
    row: Row,
    emphasize: Callable[[str], str],
    escape: Callable[[str], str] = str,
) -> list[str]:
    texts = [escape(row.label)]
    for index, (column, cell) in enumerate(zip(comparison.columns, row.cells, strict=True)):
        ours = escape(describe_ours(cell, column))
        if cell.ours and cell.ours.mean == comparison.best_of_ours(index):
            ours = emphasize(ours)
        paper = escape(describe_paper(cell, column))
        if cell.paper and cell.paper.mean == comparison.best_of_paper(index):
            paper = emphasize(paper)
        difference = cell.difference
        sign = "" if difference is None or difference < 0 else "+"
        texts += [
            ours,
            paper,
            "" if difference is None else escape(sign + column.scale.text(difference)),
        ]
    return texts


def describe_ours(cell: Cell, column: Column) -> str:
    r"""Our number with deviation, runs and budget, or why it is missing."""
    number = cell.ours
    if number is None:
        return cell.absent
    if number.mean is None:
        return f"validation {column.scale.text(number.validation)}"
    deviation = "" if number.deviation is None else f" ± {column.scale.text(number.deviation)}"
    runs = "1 run" if len(number.runs) == 1 else f"{len(number.runs)} runs"
    if not number.budget:
        return column.scale.text(number.mean)
    return f"{column.scale.text(number.mean)}{deviation} ({runs}, {number.budget})"


def describe_paper(cell: Cell, column: Column) -> str:
    r"""The paper's number with deviation, what it prints instead, or a dash."""
    number = cell.paper
    if number is None:
        return "-"
    if number.mean is None:
        return number.note or "-"
    deviation = "" if number.deviation is None else f" ± {column.scale.text(number.deviation)}"
    return f"{column.scale.text(number.mean)}{deviation}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bold(text: str) -> str:
    return f"**{text}**"


def _blank(value: float | None) -> str | float:
    return "" if value is None else value


_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "±": r"$\pm$",
    "μ": r"$\mu$",
    "Σ": r"$\Sigma$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
