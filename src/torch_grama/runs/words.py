"""Sizes, times and counts as a person says them, texts of bounded length, and tables of texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher


def format_bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return (
                f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
            )
        count /= 1000
    return f"{count:.1f} GB"


def format_seconds(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_metric(value: float) -> str:
    r"""A metric or a loss with four decimals; with an exponent where they would hide it."""
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.2e}"


def format_count(number: float, one: str, many: str = "") -> str:
    r"""A number of things, which are one thing where it is one.

    Example:
        >>> format_count(1, "graph"), format_count(2000, "graph"), format_count(0.5, "core")
        ('1 graph', '2,000 graphs', '0.5 cores')
    """
    return f"{number:,.12g} {one if number == 1 else many or f'{one}s'}"


def name_budget(word: str) -> str:
    r"""The name of a budget of experiments; ``full`` was called ``paper`` before version 0.2."""
    return "full" if word == "paper" else word


def nearest_first(word: str, choices: Iterable[str]) -> list[str]:
    r"""Words by their likeness to one, case aside."""
    word = word.lower()
    return sorted(choices, key=lambda one: -SequenceMatcher(None, word, one.lower()).ratio())


def name_nearest(word: str, choices: Iterable[str], most: int | None = None) -> str:
    r"""The words nearest to one, in quotes, for a message."""
    return ", ".join(map(repr, nearest_first(word, choices)[:most]))


def clip(text: object, length: int = 300) -> str:
    r"""A text of bounded length."""
    text = str(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def fit_columns(rows: Sequence[Sequence[str]], width: int) -> list[Sequence[str]]:
    r"""As many columns as fit into lines of this width, the first ones."""
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    count = len(sizes)
    while count > 1 and sum(sizes[:count]) + 2 * (count - 1) > width:
        count -= 1
    return [row[:count] for row in rows]


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    r"""Lines of a table whose columns are as wide as their widest cell.

    Example:
        >>> align([["model", "error"], ["GCN", "0.1"]], right=[1])
        ['model  error', 'GCN      0.1']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
