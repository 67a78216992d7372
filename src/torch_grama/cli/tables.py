"""Plain tables of text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence

PIPED = 120
"""Columns that are used where the output is no terminal."""


def output_width() -> int:
    r"""How many columns the output has."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED


def print_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    r"""Prints rows in columns as wide as their widest cell."""
    from torch_grama.runs.words import align

    print("\n".join(align(rows, right)))
