"""Tables as users have them (CSV files, Parquet files, frames of pandas), and what cells say."""

from __future__ import annotations

import contextlib
import csv
import difflib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.raw_arrays import check_size, unreadable, whole_file
from torch_grama.runs.safe_files import read_plain
from torch_grama.runs.words import format_count

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Cells = Sequence[str] | NDArray[np.float32]
"""The cells of a column: their texts, or numbers with NaN where a cell is missing."""
ChooseText = Callable[[Sequence[str]], Collection[str]]
"""Says of column names which are to be read as text, whatever their cells look like."""
Row = str | list[str]
"""A line as it is, or its cells where some are in quotes."""

_GAPS = "NA na N/A n/a #N/A <NA> NaN nan NaT null NULL - ? ."
MISSING = frozenset(("", *_GAPS.split()))
"""Words that stand for a cell without value."""
_NAN = dict.fromkeys(MISSING, "nan")
# Cells that are turned into numbers at a time.
_BLOCK = 500_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GROUPS = r"[+-]?\d{1,3}(?:(?P<mark>[%s' \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:%s\d+)?"
_GROUPED = {".": re.compile(_GROUPS % (",", r"\.")), ",": re.compile(_GROUPS % (r"\.", ","))}
_MARKS = {".": re.compile(r"[,' \u00a0\u202f]"), ",": re.compile(r"[.' \u00a0\u202f]")}
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
)
_YEAR_LAST = re.compile(
    r"(?P<day>\d{1,2})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4})"
)
_TIME = re.compile(r"[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(Z|[+-]\d{2}:?\d{2})?")
_MONTH = re.compile(r"(?=.{8,24}$)[\d. ,-]*[A-Za-z]{3,9}[\d. ,-]*\d{4}")
_NAMED_MONTHS = ("%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y")


class Table:
    r"""Columns by name; in a sentence, ``place`` is the table and ``header`` its line of names."""

    is_typed = False  # whether numbers are kept as such, not as texts that may mean another one

    def __init__(self, place: str, header: str, names: Sequence[str]) -> None:
        self.place, self.header = place, header
        self.columns: dict[str, Cells] = {}
        self.num_rows = 0
        if "\0" in "".join(names):
            raise _nul(header)
        if not names:
            raise DatasetError(f"{place} is empty: write a line with the column names first.")
        self._alike: dict[str, list[str]] = {}
        for name in names:
            alike = self._alike.setdefault(name.casefold(), [])
            if not name or name in alike:
                problem = f"the name {shown(name)} twice" if name else "a column without a name"
                raise DatasetError(f"{header} has {problem}: name each column differently.")
            alike.append(name)

    @property
    def name(self) -> str:
        r"""The table inside a sentence, which ``place`` begins."""
        return self.place[0].lower() + self.place[1:]

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
        return self._alike.get(word.casefold(), [])

    def find(self, name: str, remedy: str = "correct the option") -> str:
        r"""Returns the name of a column that must be there; upper and lower case do not matter."""
        alike = self.alike(name)
        if name in alike or len(alike) == 1:
            return name if name in alike else alike[0]
        known = list(self.columns)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (is it {shown(near[0])}?)" if near else ""
        found = ", ".join(map(shown, known[:8])) + (", ..." if len(known) > 8 else "")
        raise DatasetError(
            f"{self.header} names no column {shown(name)}{hint}, only {found}: {remedy}."
        )


class CsvTable(Table):
    r"""A CSV file with one line of column names; empty lines are skipped.

    A column is kept as text if it was asked for or if a cell is no number, else as numbers. The
    file is read once, and once more where a column shows late that it is no column of numbers.
    """

    def __init__(self, path: Path, choose_text: ChooseText) -> None:
        self._path = path
        self._line = 0
        self._delimiter = ","
        rows = self._rows()
        self._header = [name.strip() for name in self._split(next(rows, []))]
        super().__init__(f"'{path}'", f"'{path}', line 1", self._header)
        as_text = choose_text(self._header)
        self._read(rows, [p for p, name in enumerate(self._header) if name in as_text])

    def where(self, row: int) -> str:
        # only a fault asks, so lines are counted then
        next(itertools.islice(self._rows(), row + 1, None), None)
        return f"{self.place}, line {self._line}"

    def texts(self, names: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in names}
        positions = {name: self._header.index(name) for name in found}
        for row in itertools.islice(self._rows(), 1, None):
            cells = self._split(row)
            for name, position in positions.items():
                found[name].append(cells[position].strip())
        return found

    def _rows(self) -> Iterator[Row]:
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
                    f"'{self._path}', line {self._line} cannot be read ({error}): check the quotes "
                    f"in it, and that the file is whole."
                ) from error

    def _split(self, row: Row, most: int = -1) -> list[str]:
        return row.split(self._delimiter, most) if isinstance(row, str) else row

    def _lines(self) -> Iterator[str]:
        check_encoding(self._path)
        self._line = 0
        with reading_text(self._path), self._path.open(encoding="utf-8-sig", newline="") as file:
            for line in file:
                self._line += 1
                if "\0" in line:
                    raise _nul(f"'{self._path}', line {self._line}")
                yield line

    def _read(self, rows: Iterator[Row], text_positions: list[int]) -> None:
        width = len(self._header)
        texts: dict[int, list[str]] = {position: [] for position in text_positions}
        numeric = [position for position in range(width) if position not in texts]
        kept: list[tuple[list[int], NDArray[np.float32]]] = []
        late: set[int] = set()  # columns whose first word comes after numbers were read
        while block := list(itertools.islice(rows, max(1, _BLOCK // width))):
            values, words = self._numbers(block, numeric)
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

    def _numbers(
        self, block: list[Row], positions: list[int]
    ) -> tuple[NDArray[np.float32], set[int]]:
        """The numbers of those columns that have no words, and which columns have words."""
        width, mark = len(self._header), self._delimiter
        if len(positions) > 1 and positions[-1] - positions[0] == len(positions) - 1:
            lead, trail = positions[0], width - 1 - positions[-1]
            lines = [row for row in block if isinstance(row, str)]
            if len(lines) == len(block):
                cut = [row.split(mark, lead)[-1].rsplit(mark, trail)[0] for row in lines]
                with contextlib.suppress(ValueError):
                    return _load(cut, mark, len(positions)), set()
        for number, row in enumerate(block):
            count = row.count(mark) + 1 if isinstance(row, str) else len(row)
            if count != width:
                raise DatasetError(
                    f"{self.where(self.num_rows + number)} has {format_count(count, 'cell')} where "
                    f"{format_count(width, 'column is', 'columns are')} named: complete the "
                    f"row, or put quotes around a cell with a separator in it."
                )
        rows = map(self._split, block) if positions else []
        cells = [[_NAN.get(row[p].strip(), row[p]) for p in positions] for row in rows]
        found = dict(zip(positions, map(_convert, zip(*cells, strict=True)), strict=True))
        numbers = [column for column in found.values() if column is not None]
        matrix = np.array(numbers, dtype=np.float32).reshape(-1, len(block)).T
        return matrix, {position for position, column in found.items() if column is None}


def _load(lines: list[str], mark: str, width: int) -> NDArray[np.float32]:
    """Rows of numbers, the fast way; gaps need pyarrow, and words are a ``ValueError``."""
    try:
        import pyarrow
        from pyarrow import compute
    except ImportError:
        return np.loadtxt(lines, np.float32, None, mark, ndmin=2).reshape(len(lines), width)
    rows = compute.split_pattern(pyarrow.array(lines, pyarrow.large_string()), mark)
    # pyarrow reads nan(1) as a number
    if (np.diff(rows.offsets) != width).any() or any("(" in line for line in lines):
        raise ValueError(width)
    cells = rows.flatten()
    try:
        column = compute.cast(cells, pyarrow.float64())
    except ValueError:
        gaps = compute.is_in(cells, pyarrow.array(sorted(MISSING), cells.type))
        column = compute.cast(compute.if_else(gaps, None, cells), pyarrow.float64())
    # rounded twice, as numpy does it
    numbers: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32).reshape(len(lines), width)


def _convert(cells: Sequence[str]) -> NDArray[np.float32] | None:
    if "_" in "".join(cells):  # Python reads 1_2 as twelve
        return None
    try:
        with np.errstate(over="ignore"):
            return np.array(cells, dtype=np.float64).astype(np.float32)
    except ValueError:
        return None


class FrameTable(Table):
    r"""A frame of pandas, read as if it had been written to a CSV file."""

    is_typed = True

    def __init__(self, frame: DataFrame, place: str, choose_text: ChooseText) -> None:
        names = [str(name).strip() for name in frame.columns]
        super().__init__(place, place, names)
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
    with whole_file(path, "Parquet file", "write it again"):
        facts = parquet.read_metadata(path)
        groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
        parts = [group.column(number) for group in groups for number in range(group.num_columns)]
        held = sum(max(part.total_uncompressed_size, 8 * part.num_values) for part in parts)
        check_size(path, held)
        # each different word once: a file can repeat a long one without end
        fields = facts.schema.to_arrow_schema()
        words = [field.name for field in fields if str(field.type) in ("string", "large_string")]
        # threads would take a hundred kilobytes a column
        table = parquet.ParquetFile(path, read_dictionary=words).read(use_threads=False)
        frame = table.to_pandas()
    if any(frame.index.names):  # pandas keeps a column that was made the index apart
        frame = frame.reset_index()
    return FrameTable(frame, f"'{path}'", choose_text)


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
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError:
        content = path.read_bytes()
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise DatasetError(
                f"'{path}', line {line} is not in UTF-8 (the byte 0x{content[error.start]:02x}): "
                f"save the file in UTF-8."
            ) from error
        raise DatasetError(f"'{path}' changed while it was read: read it again.") from None


def read_number(text: str, decimal: str = ".") -> float | None:
    r"""Reads a number, with a decimal point or comma and with or without marks of thousands.

    Example:
        >>> read_number("1,234.5"), read_number("1.234,5", ","), read_number("4o")
        (1234.5, 1234.5, None)
    """
    if _GROUPED[decimal].fullmatch(text):
        text = _MARKS[decimal].sub("", text)
    elif decimal == "," and "." in text:
        return None
    if decimal == ",":
        text = text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_date(text: str, day_first: bool = True) -> float | None:
    r"""Reads a date, with or without a time, as days since 1970-01-01.

    Known are ``2024-03-01``, ``2024/3/1``, ``01.03.2024``, ``01/03/2024`` (in March if the day
    comes first; with points it always does), ``1 Mar 2024`` and ``Mar 1, 2024``.
    """
    found = _YEAR_FIRST.match(text) or _YEAR_LAST.match(text)
    try:
        if found is None:
            return _days(_named_month(text))
        month, day = found["month"], found["day"]
        if found.re is _YEAR_LAST and found["mark"] != "." and not day_first:
            month, day = day, month
        time = _TIME.fullmatch(text, found.end())
        if time is None and found.end() < len(text):
            return None
        clock = "" if time is None else f"T{'0' * (time[1][1] == ':')}{time[1]}{time[2] or ''}"
        return _days(datetime.fromisoformat(f"{found['year']}-{month:0>2}-{day:0>2}{clock}"))
    except ValueError:
        return None


def _named_month(text: str) -> datetime:
    for form in _NAMED_MONTHS if _MONTH.fullmatch(text) else ():
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form)
    raise ValueError(text)


def _days(date: datetime) -> float:
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _EPOCH).total_seconds() / 86400
