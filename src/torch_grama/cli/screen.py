"""What a command shows: tables, and bars while data is fetched and prepared."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence

from torch_grama.runs.bars import Bars

PIPED = 120
"""Columns that are used where the output is no terminal."""


def output_width() -> int:
    r"""How many columns the output has."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED


def print_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    r"""Prints rows in columns as wide as their widest cell."""
    from torch_grama.runs.words import align

    print("\n".join(align(rows, right)))


def print_json(value: object, indent: int | None = None) -> None:
    r"""Prints plain data as JSON."""
    from torch_grama.runs.result import to_json

    print(to_json(value, indent))


class LoadingProgress(Bars):
    r"""A bar for each thing that is done on a terminal; elsewhere one line."""

    def __init__(self, silent: bool = False) -> None:
        super().__init__(draw=False if silent else None)
        self._silent = silent
        self._told: set[str] = set()

    def report(self, what: str, done: int, total: int | None) -> None:
        r"""Takes what :class:`~torch_grama.datasets.storage.Storage` reports."""
        if not self.are_drawn and not self._silent and what not in self._told:
            self._told.add(what)
            self.say(f"{what} ...")
        self.show(what, done, total)
