"""Plain tables of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def print_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    r"""Prints rows in columns as wide as their widest cell.

    Args:
        rows (sequence of sequence of str): The rows, a header among them.
        right (collection of int, optional): Columns that are set to the right. (default: none)
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
