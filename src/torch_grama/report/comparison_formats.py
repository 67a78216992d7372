"""A comparison as plain text, Markdown, LaTeX, CSV or a page, by the word for each form."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Sequence

from torch_grama.report.comparison import Comparison, Row
from torch_grama.report.held_results import OLD_MARK
from torch_grama.report.rendering import render
from torch_grama.runs.words import align

_CSV_COLUMNS = (
    *("suite", "data", "model", "row", "metric", "mean", "deviation", "runs", "budget"),
    *("parameters", "hardware", "version", "paper_mean", "paper_deviation", "difference"),
    "absent",
)


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
    r"""The table in columns of plain text, for a terminal or a log.

    Args:
        comparison (Comparison): The table.
        width (int, optional): Where lines must end; data sets that find no room stand below, with
            the models named again. (default: no limit)
    """
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
