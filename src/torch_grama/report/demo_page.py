"""A self-contained page about one comparison of errors against distance."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_grama.report.error_table import ErrorTable, format_error
from torch_grama.report.rendering import render


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
