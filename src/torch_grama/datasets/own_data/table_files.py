"""Tables as users have them: CSV files, Parquet files, frames of pandas."""

from __future__ import annotations

import contextlib
import csv
import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.own_data.cells import MISSING
from torch_grama.datasets.raw_arrays import check_size, unreadable
from torch_grama.runs.safe_files import read_plain
from torch_grama.runs.words import format_count

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Cells = Sequence[str] | NDArray[np.float32]
"""The cells of a column: their texts, or numbers with NaN where a cell is missing."""
ChooseText = Callable[[Sequence[str]], Collection[str]]
"""Says of column names which are to be read as text, whatever their cells look like."""

# Cells that are turned into numbers at a time.
_BLOCK = 500_000
_NAN = dict.fromkeys(MISSING, "nan")


class Table:
    r"""Columns by name, and how to say where a row stands.

    Attributes:
        place: What the table is called in a sentence, a file in quotes.
        header: What its column names are called.
        columns: The cells of each column, in the order of the table.
        num_rows: How many rows there are.
    """

    def __init__(self, place: str, header: str) -> None:
        self.place, self.header = place, header
        self.columns: dict[str, Cells] = {}
        self.num_rows = 0
        self._alike: dict[str, list[str]] = {}

    def where(self, row: int) -> str:
        r"""Says where a row stands."""
        raise NotImplementedError

    def texts(self, names: Iterable[str]) -> dict[str, list[str]]:
        r"""Returns the cells of columns as text, also of those that were read as numbers."""
        raise NotImplementedError

    def text(self, name: str) -> list[str]:
        r"""Returns the cells of one column as text."""
        cells = self.columns[name]
        return self.texts([name])[name] if isinstance(cells, np.ndarray) else list(cells)

    def alike(self, word: str) -> list[str]:
        r"""Returns the columns that are called so, but for upper and lower case."""
        if not self._alike:
            for name in self.columns:
                self._alike.setdefault(name.casefold(), []).append(name)
        return self._alike.get(word.casefold(), [])

    def find(self, name: str, why: str = "add or rename it") -> str:
        r"""Returns the name of a column that must be there; upper and lower case do not matter."""
        alike = self.alike(name)
        if name in self.columns or len(alike) == 1:
            return name if name in self.columns else alike[0]
        known = list(self.columns)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (is it {shown(near[0])}?)" if near else ""
        found = ", ".join(map(shown, known[:8])) + (", ..." if len(known) > 8 else "")
        raise DatasetError(
            f"{self.header} names no column {shown(name)}{hint}, only {found}: {why}."
        )

    def _check_names(self, names: Sequence[str]) -> None:
        if "\0" in "".join(names):
            raise _nul(self.header)
        if not names:
            raise DatasetError(f"{self.place} is empty: write a line with the column names first.")
        seen: set[str] = set()
        for name in names:
            if not name or name in seen:
                problem = f"the name {shown(name)} twice" if name else "a column without a name"
                raise DatasetError(f"{self.header} has {problem}: name each column differently.")
            seen.add(name)


class CsvTable(Table):
    r"""A CSV file with one line of column names; empty lines are skipped.

    A column is kept as text if it was asked for or if a cell is no number, else as numbers. The
    file is read once, and once more where a column shows late that it is no column of numbers.
    """

    def __init__(self, path: Path, choose_text: ChooseText) -> None:
        super().__init__(f"'{path}'", f"'{path}', line 1")
        self._path = path
        self._line = 0
        self._delimiter = ","
        rows = self._rows()
        self._header = [name.strip() for name in self._split(next(rows, []))]
        self._check_names(self._header)
        as_text = choose_text(self._header)
        self._read(rows, [p for p, name in enumerate(self._header) if name in as_text])

    def where(self, row: int) -> str:
        return f"{self.place}, line {self.line(row)}"

    def line(self, row: int) -> int:
        r"""Returns the line on which a row ends; only a fault asks, so they are counted then."""
        next(itertools.islice(self._rows(), row + 1, None), None)
        return self._line

    def texts(self, names: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in names}
        positions = {name: self._header.index(name) for name in found}
        for row in itertools.islice(self._rows(), 1, None):
            cells = self._split(row)
            for name, position in positions.items():
                found[name].append(cells[position].strip())
        return found

    def _rows(self) -> Iterator[str | list[str]]:
        """The rows, the names first: a line as it is, or its cells where some are in quotes."""
        lines = self._lines()
        is_first = True
        for line in lines:
            text = line.rstrip("\r\n")
            if not text:
                continue
            if is_first:  # where the comma stands inside numbers, something else separates cells
                self._delimiter, is_first = max(",;\t", key=text.count), False
            if '"' not in text:
                yield text
                continue
            whole = itertools.chain([line], lines)  # a cell in quotes may go on over several lines
            try:
                yield next(csv.reader(whole, delimiter=self._delimiter, strict=True))
            except csv.Error as error:
                raise DatasetError(
                    f"{self.place}, line {self._line} cannot be read ({error}): check the quotes "
                    f"in it, and that the file is whole."
                ) from error

    def _split(self, row: str | list[str], most: int = -1) -> list[str]:
        return row.split(self._delimiter, most) if isinstance(row, str) else row

    def _lines(self) -> Iterator[str]:
        check_encoding(self._path)
        self._line = 0
        with reading_text(self._path), self._path.open(encoding="utf-8-sig", newline="") as file:
            for line in file:
                self._line += 1
                if "\0" in line:
                    raise _nul(f"{self.place}, line {self._line}")
                yield line

    def _read(self, rows: Iterator[str | list[str]], text_positions: list[int]) -> None:
        width = len(self._header)
        texts: dict[int, list[str]] = {position: [] for position in text_positions}
        numeric = [position for position in range(width) if position not in texts]
        kept: list[tuple[list[int], NDArray[np.float32]]] = []
        late: set[int] = set()  # columns whose first word comes after numbers were read
        while block := list(itertools.islice(rows, max(1, _BLOCK // width))):
            values, words = self._numbers(block, numeric) if numeric else (None, set[int]())
            if not numeric:
                self._check_widths(block)
            if words:
                numeric = [position for position in numeric if position not in words]
                if self.num_rows:
                    late |= words
                else:
                    texts |= {position: [] for position in words}
            if texts:
                reach = max(texts) + 1
                heads = [self._split(row, reach) for row in block]
                for position, cells in texts.items():
                    cells += [head[position].strip() for head in heads]
            if values is not None:
                kept.append((numeric, values))
            self.num_rows += len(block)
        blocks = [np.empty((0, len(numeric)), dtype=np.float32)]
        for positions, values in kept:
            is_kept = [position not in late for position in positions] if late else slice(None)
            blocks.append(values[:, is_kept])
        # torch, because numpy takes several times as long to transpose
        matrix = torch.from_numpy(np.concatenate(blocks)).t().contiguous().numpy()
        columns: dict[int, Cells] = {**texts, **dict(zip(numeric, matrix, strict=True))}
        if late:
            again = self.texts(self._header[position] for position in sorted(late))
            columns |= dict(zip(sorted(late), again.values(), strict=True))
        self.columns = {name: columns[position] for position, name in enumerate(self._header)}

    def _check_widths(self, block: list[str | list[str]]) -> None:
        width, mark = len(self._header), self._delimiter
        for row, cells in enumerate(block):
            count = cells.count(mark) + 1 if isinstance(cells, str) else len(cells)
            if count != width:
                raise DatasetError(
                    f"{self.where(self.num_rows + row)} has {format_count(count, 'cell')} where "
                    f"{format_count(width, 'column is', 'columns are')} named: complete the "
                    f"row, or put quotes around a cell with a separator in it."
                )

    def _numbers(
        self, block: list[str | list[str]], positions: list[int]
    ) -> tuple[NDArray[np.float32], set[int]]:
        """The numbers of those columns that have no words, and which columns have words."""
        lead, trail = positions[0], len(self._header) - 1 - positions[-1]
        lines, mark = [row for row in block if isinstance(row, str)], self._delimiter
        # choosing among 60,000 columns takes its time; one empty cell alone would be skipped
        is_one_piece = 1 < len(positions) == len(self._header) - lead - trail
        if len(lines) == len(block) and is_one_piece:
            cut = [row.split(mark, lead)[-1].rsplit(mark, trail)[0] for row in lines]
            with contextlib.suppress(ValueError):
                return _load(cut, mark, len(positions)), set()
        self._check_widths(block)
        if len(lines) == len(block) and not is_one_piece:
            with contextlib.suppress(ValueError):
                return np.loadtxt(lines, np.float32, None, mark, usecols=positions, ndmin=2), set()
        pick = itemgetter(*positions) if len(positions) > 1 else lambda row: (row[positions[0]],)
        rows = [
            [_NAN.get(cell, cell) for cell in map(str.strip, pick(self._split(row)))]
            for row in block
        ]
        found = _convert(rows)
        if found is not None:
            return found, set()
        columns = [_convert([cells]) for cells in zip(*rows, strict=True)]
        words = {p for p, column in zip(positions, columns, strict=True) if column is None}
        numbers = [column for column in columns if column is not None]
        blank = np.empty((0, len(rows)), dtype=np.float32)
        return np.concatenate([blank, *numbers]).T, words


def _load(lines: list[str], mark: str, width: int) -> NDArray[np.float32]:
    """Rows of numbers without gaps, the fast way; anything else is a ``ValueError``."""
    try:
        import pyarrow
        from pyarrow import compute
    except ImportError:
        return np.loadtxt(lines, np.float32, None, mark, ndmin=2).reshape(len(lines), width)
    rows = compute.split_pattern(pyarrow.array(lines, pyarrow.large_string()), mark)
    # pyarrow reads nan(1) as a number
    if (np.diff(rows.offsets) != width).any() or any("(" in line for line in lines):
        raise ValueError(width)
    # rounded twice, as numpy does it
    numbers = np.asarray(compute.cast(rows.flatten(), pyarrow.float64()))
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32).reshape(len(lines), width)


def _convert(rows: Sequence[Sequence[str]]) -> NDArray[np.float32] | None:
    if "_" in "".join(map("".join, rows)):  # Python reads 1_2 as twelve
        return None
    try:
        with np.errstate(over="ignore"):
            return np.array(rows, dtype=np.float64).astype(np.float32)
    except ValueError:
        return None


class FrameTable(Table):
    r"""A frame of pandas, read as if it had been written to a CSV file."""

    def __init__(self, frame: DataFrame, place: str, choose_text: ChooseText) -> None:
        super().__init__(place, place)
        names = [str(name).strip() for name in frame.columns]
        self._check_names(names)
        self._series: dict[str, Series] = {
            name: frame.iloc[:, position] for position, name in enumerate(names)
        }
        as_text = choose_text(names)
        self.num_rows = len(frame)
        for name, series in self._series.items():
            if name not in as_text and series.dtype.kind in "iuf":
                with np.errstate(over="ignore"):
                    numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
                    self.columns[name] = numbers.astype(np.float32)
            else:
                self.columns[name] = texts = _frame_texts(series)
                for word in [word for word in set(texts) if "\0" in word][:1]:
                    raise _nul(self.where(texts.index(word)))

    def where(self, row: int) -> str:
        return f"{self.place}, row {row}"

    def texts(self, names: Iterable[str]) -> dict[str, list[str]]:
        return {name: _frame_texts(self._series[name]) for name in names}


def _nul(place: str) -> DatasetError:
    return DatasetError(
        f"{place} has a NUL character, which no text has: remove it, or save the table again."
    )


def _frame_texts(series: Series) -> list[str]:
    if series.dtype == "category":
        words = [*_frame_texts(series.cat.categories.to_series()), ""]  # the last for code -1
        return [words[code] for code in series.cat.codes.tolist()]
    missing = series.isna().tolist()
    values = series.tolist()
    if series.dtype.kind == "f" and any(missing):
        # pandas keeps whole numbers as decimal ones as soon as one is missing
        present = [value for value, gap in zip(values, missing, strict=True) if not gap]
        if all(float(value).is_integer() for value in present):
            values = [0 if gap else int(value) for value, gap in zip(values, missing, strict=True)]
    return ["" if gap else str(value).strip() for value, gap in zip(values, missing, strict=True)]


def read_table(path: Path, choose_text: ChooseText) -> Table:
    r"""Reads a table in the form that its ending names."""
    if path.suffix == ".csv":
        return CsvTable(path, choose_text)
    try:
        import pandas  # noqa: F401
        from pyarrow import parquet
    except ImportError as error:
        raise DatasetError(
            f"'{path}' is a Parquet file, which pandas and pyarrow read: run `pip install "
            f"'torch-grama[tables]'`, or save it as '{path.stem}.csv'."
        ) from error
    check_size(path)
    with _reading_parquet(path):
        facts = parquet.read_metadata(path)
        groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
        parts = [group.column(number) for group in groups for number in range(group.num_columns)]
        held = sum(max(part.total_uncompressed_size, 8 * part.num_values) for part in parts)
        fields = facts.schema.to_arrow_schema()
    check_size(path, held)
    # each different word once: a file can repeat a long one without end
    words = [field.name for field in fields if str(field.type) in ("string", "large_string")]
    with _reading_parquet(path), parquet.ParquetFile(path, read_dictionary=words) as file:
        # threads would take a hundred kilobytes a column
        frame = file.read(use_threads=False).to_pandas()
    if any(frame.index.names):  # pandas keeps a column that was made the index apart
        frame = frame.reset_index()
    return FrameTable(frame, f"'{path}'", choose_text)


@contextlib.contextmanager
def _reading_parquet(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # pyarrow raises nearly every type on garbage
        reason = str(error).splitlines()[0] if str(error) else ""
        raise DatasetError(
            f"'{path}' is not a whole Parquet file ({type(error).__name__}: "
            f"{shown(reason, 200)[1:-1]}): write it again."
        ) from error


def read_text(path: Path) -> str:
    r"""Reads a text file in UTF-8, with or without byte order mark."""
    check_encoding(path)
    with reading_text(path):
        return read_plain(path).decode("utf-8-sig")


def check_encoding(path: Path) -> None:
    r"""Refuses a file in UTF-16, which would read as text with a NUL in every second place;
    and what is no plain file."""
    check_size(path)
    with reading_text(path), path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise DatasetError(f"'{path}' is in UTF-16: save it in UTF-8.")


@contextlib.contextmanager
def reading_text(path: Path) -> Iterator[None]:
    r"""Says that a file cannot be opened, or where it is not in UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _undecodable(path) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _undecodable(path: Path) -> DatasetError:
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"the byte 0x{content[error.start]:02x}"
        return DatasetError(
            f"'{path}', line {line} is not in UTF-8 ({byte}): save the file in UTF-8."
        )
    return DatasetError(f"'{path}' changed while it was read: read it again.")
