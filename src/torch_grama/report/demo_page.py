"""A self-contained page about one comparison of errors against distance."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from torch_grama.report.error_table import ErrorTable, format_error

TEMPLATE = "templates/demo.html"


@dataclass(frozen=True)
class DemoText:
    r"""The words of the page.

    Attributes:
        title: The heading.
        lead: What is asked of the models.
        finding: What was measured, in a sentence.
        reading: What must be known to judge it.
        trivial: What the trivial predictors are.
        settings: Name to value of what all runs have in common.
        commands: Lines for a terminal.
        footer: The last line.
    """

    title: str
    lead: str
    finding: str
    reading: str
    trivial: str
    settings: Mapping[str, str]
    commands: Sequence[str]
    footer: str


def build_demo_page(table: ErrorTable, picture: Path, text: DemoText, base: Path) -> str:
    r"""Returns the page as HTML: one file, which asks for nothing from anywhere.

    Args:
        table (ErrorTable): The errors.
        picture (Path): A PNG of them, which becomes part of the page.
        text (DemoText): The words.
        base (Path): The folder of the page; run folders are named as seen from there.
    """
    template = Template((files(__package__) / TEMPLATE).read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(text.title),
        lead=escape(text.lead),
        finding=escape(text.finding),
        reading=escape(text.reading),
        alt=escape(f"Error against distance. {text.finding}", quote=True),
        picture=base64.b64encode(picture.read_bytes()).decode("ascii"),
        errors=_errors(table),
        trivial=escape(text.trivial),
        settings=_rows("words", ["setting", "value"], ([*pair] for pair in text.settings.items())),
        runs=_rows(
            "paths",
            ["model", "hops", "parameters", "selected epoch", "seconds", "run folder"],
            _describe_runs(table, base),
        ),
        commands=escape("\n".join(text.commands)),
        footer=escape(text.footer),
    )


def _errors(table: ErrorTable) -> str:
    head = _cells("th", ["model", *(f"{distance} hops" for distance in table.distances)])
    lines = []
    for row in table.rows:
        cells = [f"<td>{escape(row.label)}</td>"]
        for distance in table.distances:
            error = row.errors.get(distance)
            best = error is not None and error == table.best(distance)
            cells.append(f"<td class='{'best' if best else 'other'}'>{format_error(error)}</td>")
        kind = "trivial" if row.is_trivial else "model"
        lines.append(f"<tr class='{kind}'>{''.join(cells)}</tr>")
    return _table("Mean squared error at the target", head, lines)


def _describe_runs(table: ErrorTable, base: Path) -> Iterable[list[str]]:
    for row in table.models:
        for distance, runs in sorted(row.runs.items()):
            for run in runs:
                folder = run.path.parent
                inside = folder.relative_to(base) if folder.is_relative_to(base) else folder
                yield [
                    row.label,
                    str(distance),
                    f"{run.parameters:,}",
                    str(run.best_epoch + 1),
                    f"{run.seconds:.0f}",
                    str(inside),
                ]


def _rows(kind: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"<tr>{_cells('td', row)}</tr>" for row in rows]
    return _table("", _cells("th", head), lines, kind)


def _table(caption: str, head: str, lines: Sequence[str], kind: str = "numbers") -> str:
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "\n".join(lines)
    head = f"<thead><tr>{head}</tr></thead>"
    return f"<table class='{kind}'>{title}\n{head}\n<tbody>\n{body}\n</tbody></table>"


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
