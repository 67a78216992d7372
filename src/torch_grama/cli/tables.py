"""Plain tables of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def print_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    r"""Prints rows in columns as wide as their widest cell.

    Args:
        rows (sequence of sequence of str): The rows, a header among them.
        right (collection of int, optional): Columns that are set to the right. (default: none)
    """
    from torch_grama.runs.words import align

    print("\n".join(align(rows, right)))
