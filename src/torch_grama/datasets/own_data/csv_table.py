"""A table of comma-separated values, read in portions of columns."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError

_ROWS_AT_A_TIME = 20_000
_Cell = TypeVar("_Cell")


@dataclass(frozen=True)
class Portion:
    r"""Some consecutive rows of a table."""

    lines: NDArray[np.int64]  # the line of the file on which each row ends
    columns: Sequence[Sequence[str]]  # the cells of each column, without spaces around them


class CsvTable:
    r"""A table with one line of column names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = read_text(path).replace("\r\n", "\n")
        first = self._text.split("\n", 1)[0]
        # Where the comma stands inside numbers, cells are separated by something else.
        self._delimiter = max(",;\t", key=first.count)
        header = next(self._rows(), None)
        if header is None:
            raise DatasetError(f"'{path}' is empty: write a line with the column names first.")
        self.columns = tuple(name.strip() for name in header[1])
        for position, name in enumerate(self.columns):
            if not name or name in self.columns[:position]:
                problem = f"the name '{name}' twice" if name else "a column without a name"
                raise DatasetError(f"'{path}', line 1 has {problem}: name each column differently.")

    def position(self, name: str) -> int:
        r"""Returns where a column that must be there stands."""
        if name in self.columns:
            return self.columns.index(name)
        nearest = difflib.get_close_matches(name, self.columns, n=1)
        hint = f" (is it '{nearest[0]}'?)" if nearest else ""
        found = ", ".join(f"'{column}'" for column in self.columns[:8])
        more = ", ..." if len(self.columns) > 8 else ""
        raise DatasetError(
            f"'{self.path}', line 1 names no column '{name}'{hint}, only {found}{more}: add or "
            f"rename it."
        )

    def portions(self) -> Iterator[Portion]:
        r"""Reads the rows; empty lines are skipped."""
        body = self._text.rstrip("\n")
        if '"' in body or "\r" in body or "\n\n" in body or body.startswith("\n"):
            yield from self._quoted_portions()
        else:
            yield from self._plain_portions(body)

    def read(
        self,
        wanted: Sequence[str],
        ignore: Sequence[str],
        convert: Callable[[Sequence[str], NDArray[np.int64]], Sequence[_Cell]],
    ) -> tuple[dict[str, list[_Cell]], NDArray[np.int64], list[FeatureColumn]]:
        r"""Reads the wanted columns, the line of each row, and the other columns as features."""
        positions = {name: self.position(name) for name in wanted}
        cells: dict[str, list[_Cell]] = {name: [] for name in wanted}
        lines = [np.zeros(0, dtype=np.int64)]
        features = {
            position: FeatureColumn(name, self.path)
            for position, name in enumerate(self.columns)
            if name not in wanted and name not in ignore
        }
        for portion in self.portions():
            lines.append(portion.lines)
            for name, column in cells.items():
                column.extend(convert(portion.columns[positions[name]], portion.lines))
            for position, feature in features.items():
                feature.add(portion.columns[position], portion.lines)
        return cells, np.concatenate(lines), list(features.values())

    def _plain_portions(self, body: str) -> Iterator[Portion]:
        """Cuts whole blocks of lines into cells at once: ten times as fast as row by row."""
        width, delimiter = len(self.columns), self._delimiter
        rows = body.split("\n")
        for start in range(1, len(rows), _ROWS_AT_A_TIME):
            block = rows[start : start + _ROWS_AT_A_TIME]
            counts = list(map(str.count, block, itertools.repeat(delimiter)))
            for odd in (n for n, count in enumerate(counts) if count != width - 1):
                raise self._ragged(start + odd + 1, counts[odd] + 1)
            cells = delimiter.join(block).split(delimiter)
            lines = np.arange(start + 1, start + len(block) + 1)
            yield Portion(lines, [_stripped(cells[column::width]) for column in range(width)])

    def _quoted_portions(self) -> Iterator[Portion]:
        rows: list[list[str]] = []
        lines: list[int] = []
        width = len(self.columns)
        numbered = self._rows()
        next(numbered)
        for line, row in numbered:
            if len(row) != width:
                raise self._ragged(line, len(row))
            rows.append(row)
            lines.append(line)
            if len(rows) == _ROWS_AT_A_TIME:
                yield _portion(lines, rows)
                rows, lines = [], []
        if rows:
            yield _portion(lines, rows)

    def _ragged(self, line: int, found: int) -> DatasetError:
        return DatasetError(
            f"'{self.path}', line {line} has {found} cells where {len(self.columns)} columns are "
            f"named: complete the row, or put quotes around a cell with a separator in it."
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(
            io.StringIO(self._text, newline=""), delimiter=self._delimiter, strict=True
        )
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise DatasetError(
                f"'{self.path}', line {reader.line_num} cannot be read ({error}): check the quotes "
                f"in it, and that the file is whole."
            ) from error


def read_text(path: Path) -> str:
    r"""Reads a text file in UTF-8, with or without byte order mark."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"Cannot read '{path}' ({error.strerror}): check the path and its permissions."
        ) from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DatasetError(f"'{path}' is in UTF-16: save it in UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"'{path}', line {line} is not in UTF-8 (the byte 0x{content[error.start]:02x}): save "
            f"the file in UTF-8."
        ) from error


def _portion(lines: list[int], rows: list[list[str]]) -> Portion:
    columns = [_stripped(column) for column in zip(*rows, strict=True)]
    return Portion(np.array(lines, dtype=np.int64), columns)


def _stripped(cells: Sequence[str]) -> Sequence[str]:
    # Looking for a space in all cells together is far cheaper than stripping each.
    joined = "".join(cells)
    if joined.isascii() and not any(space in joined for space in " \t\v\f\n"):
        return cells
    return [cell.strip() for cell in cells]


# A column of words with more values than this is taken for names or prose, not for categories.
MOST_CATEGORIES = 20


class FeatureColumn:
    r"""Collects the cells of a column and turns them into one or more columns of numbers.

    A column whose cells are all numbers is one feature. A column in which no cell is a number is
    one feature for each of its values (1 where the cell has it, 0 elsewhere), provided that there
    are at most 20 values and on average each occurs twice. Everything else is an error.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._numbers: list[NDArray[np.float32]] = []
        self._words: list[str] = []
        self._first_line = 0

    def add(self, cells: Sequence[str], lines: NDArray[np.int64]) -> None:
        r"""Takes the next cells."""
        self._first_line = self._first_line or int(lines[0])
        numbers = _numbers(cells)
        if numbers is None:
            self._add_words(cells, lines)
            return
        if self._words:
            raise self._fault(lines[0], cells[0], "is a number where the rows above have words")
        with np.errstate(over="ignore"):
            narrow = numbers.astype(np.float32)
        for row in np.flatnonzero(~np.isfinite(narrow))[:1]:
            raise self._fault(lines[row], cells[row], "is not finite")
        self._numbers.append(narrow)

    def finish(self) -> tuple[NDArray[np.float32], tuple[str, ...], str | None]:
        r"""Returns the columns of numbers, their names, and what to tell the user about them."""
        if not self._words:
            return np.concatenate(self._numbers)[:, None], (self.name,), None
        values = sorted(set(self._words))
        if len(values) > min(MOST_CATEGORIES, max(2, len(self._words) // 2)):
            raise DatasetError(
                f"'{self._path}', line {self._first_line}: the column '{self.name}' has "
                f"{len(values)} different words such as '{self._words[0]}', too many to be "
                f"categories: turn it into numbers, or leave it out with 'ignore'."
            )
        number = {value: column for column, value in enumerate(values)}
        flags = np.zeros((len(self._words), len(values)), dtype=np.float32)
        flags[np.arange(len(self._words)), [number[word] for word in self._words]] = 1.0
        note = f"The words of the column '{self.name}' became {len(values)} features of 0 and 1."
        return flags, tuple(f"{self.name}={value}" for value in values), note

    def _add_words(self, cells: Sequence[str], lines: NDArray[np.int64]) -> None:
        if "" in cells:
            raise self._fault(lines[cells.index("")], "", "is empty")
        values = set(cells)
        words = {cell for cell in values if _numbers([cell]) is None}
        if self._numbers or words != values:
            row = next(row for row, cell in enumerate(cells) if cell in words)
            raise self._fault(lines[row], cells[row], "is no number while others are")
        self._words.extend(cells)

    def _fault(self, line: np.int64, cell: str, fault: str) -> DatasetError:
        return DatasetError(
            f"'{self._path}', line {line}: the cell '{cell}' in the column '{self.name}' {fault}: "
            f"correct it, or leave the column out with 'ignore'."
        )


def _numbers(cells: Sequence[str]) -> NDArray[np.float64] | None:
    if "_" in "".join(cells):  # Python would read 1_2 as twelve
        return None
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return None


def join_columns(
    columns: Sequence[FeatureColumn],
) -> tuple[NDArray[np.float32], tuple[str, ...], tuple[str, ...]]:
    r"""Puts the features of several columns side by side."""
    finished = [column.finish() for column in columns]
    return (
        np.concatenate([values for values, _, _ in finished], axis=1),
        tuple(name for _, names, _ in finished for name in names),
        tuple(note for _, _, note in finished if note is not None),
    )
