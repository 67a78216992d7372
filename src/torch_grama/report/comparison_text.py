"""A comparison as Markdown, LaTeX, CSV or plain text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from torch_grama.report.comparison import Cell, Column, Comparison, Row
from torch_grama.report.held_results import OLD_MARK


def to_markdown(comparison: Comparison) -> str:
    r"""The table in Markdown: ours (runs, budget), the paper's, the difference; best in bold."""
    head = ["Model"]
    for column in comparison.columns:
        arrow = "↑" if column.scale.higher_is_better else "↓"
        head += [f"{column.heading} {arrow}", "paper", "difference"]
    lines = [f"### {comparison.title}", "", _line(head), _line(["---"] * len(head))]
    lines += [_line(_texts(comparison, row, _bold)) for row in _all_rows(comparison)]
    for note in comparison.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def to_latex(comparison: Comparison) -> str:
    r"""The table in LaTeX, in the layout of the paper (``booktabs``); notes become comments."""
    count = len(comparison.columns)
    heads, groups, rules = [], [], []
    for index, column in enumerate(comparison.columns):
        arrow = r"$\uparrow$" if column.scale.higher_is_better else r"$\downarrow$"
        groups.append(rf"\multicolumn{{3}}{{c}}{{{_latex(column.heading)} {arrow}}}")
        heads.append(r"ours & paper & diff.")
        rules.append(rf"\cmidrule(lr){{{3 * index + 2}-{3 * index + 4}}}")
    lines = [
        *(f"% {text}" for text in (comparison.title, *comparison.notes)),
        r"\begin{tabular}{l" + "rrr" * count + "}",
        r"\toprule",
        " & " + " & ".join(groups) + r" \\",
        " ".join(rules),
        "Model & " + " & ".join(heads) + r" \\",
    ]
    for part in (comparison.references, comparison.rows):
        lines += [r"\midrule"] * bool(part)
        for row in part:
            texts = _texts(comparison, row, lambda text: rf"\textbf{{{text}}}", _latex)
            lines.append(" & ".join(texts) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


CSV_COLUMNS = (
    *("suite", "data", "model", "row", "metric", "mean", "deviation", "runs", "budget"),
    *("parameters", "hardware", "version", "paper_mean", "paper_deviation", "difference"),
    "absent",
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
                        ours.old_version or ours.runs[0].version,
                    ]
                    if ours
                    else [""] * 7
                )
                + ([_blank(paper.mean), _blank(paper.deviation)] if paper else ["", ""])
                + [_blank(cell.difference), cell.absent]
            )
    return buffer.getvalue()


def to_text(comparison: Comparison, width: int | None = None) -> str:
    r"""The table in columns of plain text, for a terminal or a log.

    Args:
        comparison (Comparison): The table.
        width (int, optional): Where lines must end; data sets that find no room stand below, with
            the models named again. (default: no limit)
    """
    head = ["model"]
    for column in comparison.columns:
        head += [column.heading, "paper", "diff"]
    rows = _all_rows(comparison)
    body = [_texts(comparison, row, lambda text: f"*{text}") for row in rows]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    rule = ["-" * size for size in widths]
    split = len(comparison.references)
    table = [head, rule, *body[:split], *([rule] if split else []), *body[split:]]
    lines = [comparison.title]
    for first, last in _blocks(widths, width):
        lines.append("")
        for line in table:
            cells = [line[0].ljust(widths[0])]
            cells += [line[i].rjust(widths[i]) for i in range(first, last)]
            lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", *comparison.notes, "* best of its column"]) + "\n"


def _blocks(widths: Sequence[int], limit: int | None) -> list[tuple[int, int]]:
    """Ranges of columns, three a data set, that fit into lines beside the first column."""
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
    for index, (column, cell) in enumerate(zip(comparison.columns, row.cells, strict=True)):
        ours = escape(describe_ours(cell, column))
        if comparison.is_our_best(index, cell):
            ours = emphasize(ours)
        paper = escape(describe_paper(cell, column))
        if comparison.is_best_of_paper(index, cell):
            paper = emphasize(paper)
        texts += [ours, paper, escape(describe_difference(cell, column))]
    return texts


def describe_ours(cell: Cell, column: Column) -> str:
    r"""Our number with deviation, a mark if it is old, runs and budget, or why it is missing."""
    number = cell.ours
    if number is None:
        return cell.absent
    if number.mean is None:
        return f"validation {column.scale.text(number.validation)}"
    mean = column.scale.text_with_deviation(number.mean, number.deviation)
    if number.old_version:
        mean = f"{mean} {OLD_MARK}"
    if not number.budget:
        return mean
    count, wanted = len(number.runs), column.runs.get(number.budget, 0)
    runs = f"{count} of {wanted} runs" if count < wanted else f"{count} run{'s' * (count != 1)}"
    return f"{mean} ({runs}, {number.budget})"


def describe_paper(cell: Cell, column: Column) -> str:
    r"""The paper's number with deviation, what it prints instead, or a dash."""
    number = cell.paper
    if number is None:
        return "-"
    if number.mean is None:
        return number.note or "-"
    return column.scale.text_with_deviation(number.mean, number.deviation)


def describe_difference(cell: Cell, column: Column) -> str:
    r"""Ours minus the paper's with its sign, or nothing where one of them is missing."""
    difference = cell.difference
    if difference is None:
        return ""
    return ("" if difference < 0 else "+") + column.scale.text(difference)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bold(text: str) -> str:
    return f"**{text}**"


def _blank(value: float | None) -> str | float:
    return "" if value is None else value


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


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return _MINUS.sub("$-$", escaped)
