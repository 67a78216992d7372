"""The table of a run: one row per epoch, written as it grows and read whatever its state."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import LIMITS, METRICS
from torch_grama.runs.safe_files import open_plain

_WHOLE = ("epoch", "step")
_MAX_LINE = 20_000


class MetricsFile:
    r"""Writes ``metrics.csv`` anew, row by row; the first column is ``epoch``."""

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
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()

    def _format(self, row: Sequence[float]) -> list[str]:
        return [
            str(int(value)) if name in _WHOLE else ("" if value != value else repr(float(value)))
            for name, value in zip(self._columns, row, strict=True)
        ]


def read_metrics(path: Path) -> list[dict[str, str]]:
    r"""Returns the rows of a table by column, without one that is being written; none if there is
    no table yet.
    """
    try:
        with open_plain(path, LIMITS[METRICS]) as stream:
            head, rows = parse_metrics(stream)
    except (OSError, csv.Error):
        return []
    return [dict(zip(head, row, strict=True)) for row in rows]


def parse_metrics(stream: IO[bytes], most: int | None = None) -> tuple[list[str], list[list[str]]]:
    r"""Returns the head of a table, which anyone may have written, and the rows that are as long as
    it: one that is being written may be short. Epochs count from 1, also where the file has them
    from 0. Of a table with more rows than :obj:`most`, every second, fourth and so on is returned.
    """
    with io.TextIOWrapper(stream, "utf-8", "replace", newline="") as text:
        reader = csv.reader(_lines(text))
        head = next(reader, [])
        rows: list[list[str]] = []
        stride = 1
        for number, row in enumerate(reader):
            if number % stride == 0 and len(row) == len(head):
                rows.append(row)
            if most is not None and len(rows) > most:
                rows, stride = rows[::2], 2 * stride
    if rows and head[0] == "epoch" and rows[0][0] == "0":  # as versions before 0.2 counted
        rows = [[str(int(row[0]) + 1), *row[1:]] for row in rows if row[0].isdecimal()]
    return head, rows


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise csv.Error(f"a line has more than {_MAX_LINE:,} letters")
        yield line
