"""Markdown written by a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a table; what is in the cells is Markdown."""
    lines = [list(header), ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def code(text: str) -> str:
    """Marks a text as code."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Escapes what Markdown would read as markup."""
    for mark in "\\*_<>[]$`":
        text = text.replace(mark, f"\\{mark}")
    return text


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")
