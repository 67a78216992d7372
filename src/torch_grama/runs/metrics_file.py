"""The table of a run: one row an epoch, written as it grows and read whatever its state."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch_grama.runs.atomic_file import write_atomically

_WHOLE = ("epoch", "step")


class MetricsFile:
    r"""Writes ``metrics.csv``, row by row.

    Args:
        path (Path): The file; an older one is replaced.
        columns (sequence of str): Their names; the first is ``epoch``.
        rows (iterable of sequence of float): Those that are known already.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], rows: Iterable[Sequence[float]] = ()
    ) -> None:
        self._columns = list(columns)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._columns)
        writer.writerows(map(self._format, rows))
        write_atomically(path, text.getvalue().encode())
        self._stream = path.open("a", encoding="utf-8", newline="")

    def add(self, row: Sequence[float]) -> None:
        r"""Adds a row; NaN stands for no number."""
        csv.writer(self._stream, lineterminator="\n").writerow(self._format(row))
        self._stream.flush()

    def flush(self) -> None:
        r"""Brings what was written to the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        r"""Ends writing."""
        self._stream.close()

    def _format(self, row: Sequence[float]) -> list[str]:
        return [
            str(int(value)) if name in _WHOLE else ("" if value != value else repr(float(value)))
            for name, value in zip(self._columns, row, strict=True)
        ]


def read_metrics(path: Path) -> list[dict[str, str]]:
    r"""Returns the rows of a table by column, without one that is being written; none if there is
    no table yet.

    Args:
        path (Path): The file.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return []
    return [dict(zip(rows[0], row, strict=True)) for row in whole_rows(rows)[1:]]


def whole_rows(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    r"""Returns the head and all rows as long as it: one that is being written may be short."""
    return [row for row in rows if len(row) == len(rows[0])]
