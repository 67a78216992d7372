"""How the columns of a table are read: found out from their cells, or as those of training were."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_grama.datasets.errors import DatasetError, Faults, shown
from torch_grama.datasets.options import Options, list_option
from torch_grama.datasets.own_data.table_files import MISSING, Cells, Table, read_date, read_number
from torch_grama.datasets.task_data import Column
from torch_grama.runs.words import format_count

GAP = "(missing)"
"""The word of a cell without one; ``age=(missing)`` is 1 where the number is missing."""
Values = NDArray[np.float32]
_LISTED = 8
_WHOLE = re.compile(r"[+-]?[0-9]+\.0")


@dataclass
class TableFeatures:
    r"""What became of the columns of a table."""

    columns: list[Column] = field(default_factory=list)  # in the order of their features
    values: list[Values] = field(default_factory=list)  # ``[K, N]`` a column; NaN: missing
    warnings: list[str] = field(default_factory=list)  # what to look at, one sentence each

    @property
    def names(self) -> tuple[str, ...]:
        found: list[str] = []
        for column in self.columns:
            found += [column.name] if column.kind != "words" else []
            found += [f"{column.name}={word}" for word in column.values or [GAP] * column.flag]
        return tuple(found)

    def add(self, column: Column, values: Values) -> None:
        r"""Adds a column: numbers ``[N]``, or one row of 0 and 1 for each word."""
        self.columns.append(column)
        if column.kind != "words":
            values = np.stack([values, np.isnan(values)]) if column.flag else values[None]
        self.values.append(values)

    def matrix(self, rows: int) -> Tensor:
        blank = np.empty((0, rows), dtype=np.float32)
        return torch.from_numpy(np.concatenate([blank, *self.values])).t().contiguous()


class Decisions:
    r"""What was decided about columns, the same decision about several of them in one sentence."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def add(self, decision: str, name: str, detail: str = "", change: str = "") -> None:
        r"""Adds a column; ``change`` says how to decide otherwise, with NAMES for the columns."""
        text = f"{shown(name)} ({detail})" if detail else shown(name)
        self._taken.setdefault((decision, change), []).append((name, text))

    def sentences(self) -> tuple[str, ...]:
        found = []
        for (decision, change), columns in self._taken.items():
            names, texts = zip(*columns[:_LISTED], strict=True)
            option = list_option(shown(name)[1:-1] for name in names)
            more = f" and {len(columns) - _LISTED:,} more" if len(columns) > _LISTED else ""
            how = f"; {change.replace('NAMES', option)}" if change else ""
            found.append(f"{decision}: {', '.join(texts)}{more}{how}.")
        return tuple(found)


class ColumnReader:
    r"""Reads the columns of a table; gathers faults, and what is to be said."""

    def __init__(
        self,
        table: Table,
        names: Collection[str],
        options: Options,
        faults: Faults,
        decisions: Decisions,
    ) -> None:
        self._table, self._names, self._options = table, names, options
        self._faults, self._decisions = faults, decisions
        self._missing = MISSING | set(options.missing_words)

    def learn(self, names: Collection[str]) -> TableFeatures:
        r"""Reads columns as numbers, else as dates, else as words; every decision is a note."""
        found = TableFeatures()
        columns = self._cells(names) if self._table.num_rows else {}
        for name, cells in columns.items():
            with self._faults:
                self._learn(found, name, cells)
        return found

    def follow(self, columns: Sequence[Column], names: Collection[str]) -> TableFeatures:
        r"""Reads columns in the ways of training; what it did not have is a warning."""
        found = TableFeatures()
        unseen: dict[str, Counter[str]] = {}
        gapped = Decisions()
        for column in columns if self._table.num_rows else ():
            with self._faults:
                name = self._table.find(column.name, "the model was trained on it, add it")
                if column.kind == "words":
                    words = self._words(self._table.text(name))
                    found.add(column, _one_hot(words, column.values))
                    unseen[name] = Counter(words)
                    for word in column.values:
                        del unseen[name][word]
                    continue
                numbers = self._follow(column, name)
                gaps = self._count_gaps(name, np.isnan(numbers))
                found.add(column, numbers)
                if gaps and not column.flag:
                    gapped.add(
                        "Cells are missing in columns that had no gaps in training, and got what "
                        "training puts into gaps",
                        name,
                        f"{gaps:,}",
                    )
        with self._faults:
            self._say_unseen(found, unseen)
        found.warnings += [f"{self._table.place}: {text}" for text in gapped.sentences()]
        known = {column.name.casefold() for column in columns}
        for name in names:
            if name.casefold() not in known:
                self._decisions.add("Columns that training did not use were left out", name)
        return found

    def read_labels(self, name: str) -> list[str]:
        r"""Returns labels with a decimal point, and nothing where one is missing."""
        cells = ["" if cell in self._missing else cell for cell in self._table.text(name)]
        present = set(cells) - {""}
        if len(present) < len(set(cells)) and all(map(_WHOLE.fullmatch, present)):
            # pandas writes whole numbers as decimal ones as soon as one is missing
            return [cell.removesuffix(".0") for cell in cells]
        # a frame keeps numbers apart from texts, and writes them with a point
        marks = set(",." if self._decimal == "," and not self._table.is_typed else ",")
        has_marks = any(not marks.isdisjoint(cell) for cell in present)
        read = self._as_number(name, cells) if has_marks else None
        if read is None:
            return cells
        # not as features have them, in single precision: a number may be the name of a class
        numbers = {cell: read_number(cell, read[0].decimal) for cell in present}
        return ["" if numbers.get(cell) is None else repr(numbers[cell]) for cell in cells]

    def read_weights(self, name: str, known: Column | None) -> tuple[Column, Values]:
        r"""Reads a column that must hold numbers, in the way of training where that is known."""
        if known is None:
            read = self._as_number(name, self._cells([name])[name])
        else:
            read = known, self._follow(known, name)
        if read is None:
            raise DatasetError(
                f"{self._table.where(0)} has words in the column {shown(name)}: write numbers, or "
                f"leave the column out with `-o {option('ignore', name)}`.",
                remedy=option("ignore", name),
            )
        self._tell_gaps(name, read[1], "")
        return read

    @cached_property
    def _decimal(self) -> str | None:
        """The mark asked for; else the comma, if some column can be read with it alone."""
        for name in self._names if self._options.decimal is None else ():
            cells = self._table.columns[name]
            words = [] if isinstance(cells, np.ndarray) else self._present(cells)
            with_point = all(read_number(word) is not None for word in words)
            if not with_point and all(read_number(word, ",") is not None for word in words):
                return ","
        return self._options.decimal

    def _cells(self, names: Collection[str]) -> dict[str, Cells]:
        """Columns, as text where a number may have been read with the wrong mark."""
        columns = {name: self._table.columns[name] for name in names}
        if self._decimal == "," and not self._table.is_typed:  # 1.234 may be a thousand here
            columns |= self._table.texts(names)
        return columns

    def _learn(self, found: TableFeatures, name: str, cells: Cells) -> None:
        if name.casefold() in map(str.casefold, self._options.words):
            self._learn_words(found, name, cells)
            return
        read = self._as_number(name, cells) or self._as_date(name, cells)
        if read is None:
            self._check_mixture(name, list(map(str, cells)))
            rows, count = len(cells), len(set(self._words(cells)))
            # a column of categories has no more; names and prose have
            if count <= min(max(2, rows // 2), max(20, min(100, math.isqrt(rows)))):
                self._learn_words(found, name, cells)
                return
            self._decisions.add(
                "Columns with too many different words to be categories were left out",
                name,
                f"{count:,} words",
                "`-o words=NAMES` keeps them",
            )
            return
        column, numbers = read
        if np.isnan(numbers).all():
            self._decisions.add("Columns without any value were left out", name)
            return
        if self._tell_gaps(name, numbers, f", and a feature NAME={GAP} that marks them"):
            column = replace(column, flag=True)
        found.add(column, numbers)

    def _learn_words(self, found: TableFeatures, name: str, cells: Cells) -> None:
        words = self._words(cells)
        values = sorted(set(words) - {GAP})
        gaps = self._count_gaps(name, np.array([word == GAP for word in words]))
        without = f", and {format_count(gaps, 'cell')} without one" if gaps else ""
        self._decisions.add(
            "Words became features of 0 and 1",
            name,
            f"{format_count(len(values), 'word')}{without}",
            "`-o ignore=NAMES` leaves them out",
        )
        values += [GAP] * (gaps > 0)
        found.add(Column(name, "words", values=tuple(values)), _one_hot(words, values))

    def _as_number(self, name: str, cells: Cells) -> tuple[Column, Values] | None:
        """Numbers with points, commas or marks of thousands; nothing where there are words."""
        if isinstance(cells, np.ndarray):
            return Column(name), self._numbers(name, cells)
        words = self._present(cells)
        marks = {mark: _read_all(words, partial(read_number, decimal=mark)) for mark in ".,"}
        fits = [mark for mark, (_, others) in marks.items() if not others]
        point, comma = marks["."][0], marks[","][0]
        unclear = [word for word in words if len(fits) == 2 and point[word] != comma[word]]
        if unclear and self._decimal is None and any("," in word for word in unclear):
            row, _ = self._first(cells, unclear)
            raise DatasetError(
                f"{self._table.where(row)}: the comma in {shown(cells[row])}, in the column "
                f"{shown(name)}, may be a decimal comma or a mark of thousands: say which with "
                f"`-o decimal=,` or `-o decimal=.`.",
                remedy="decimal=,",
            )
        mark = self._decimal if self._decimal in fits else (*fits, self._decimal or ".")[0]
        values, others = marks[mark]
        if others:
            if name.casefold() not in map(str.casefold, self._options.numbers):
                return None
            count = sum(cell in set(others) for cell in cells)
            self._decisions.add(
                "Cells that are no numbers were taken as missing",
                name,
                f"{count:,}, such as {shown(others[0])}",
            )
        marks_of_thousands = set(",' \u00a0\u202f" + "." * (mark == ","))
        odd = [word for word in values if not marks_of_thousands.isdisjoint(word)]
        if odd:
            self._decisions.add(
                "Numbers with a decimal comma or with marks of thousands were recognised",
                name,
                f"{shown(odd[0])} is {values[odd[0]]:.10g}",
                "`-o decimal=.` or `-o decimal=,` says which it is",
            )
        return Column(name, decimal=mark if odd else "."), self._numbers(name, cells, values)

    def _as_date(self, name: str, cells: Cells) -> tuple[Column, Values] | None:
        words = self._present(cells)
        readers = {first: partial(read_date, day_first=first) for first in (True, False)}
        if not any(_read_all(words[:8] + words[-8:], read)[0] for read in readers.values()):
            return None
        orders = {first: _read_all(words, read) for first, read in readers.items()}
        first = self._options.day_first
        if first is None:
            first = len(orders[True][1]) <= len(orders[False][1])
        days, others = orders[first]
        if others and len(days) < len(others):
            return None
        if others:
            row, more = self._first(list(map(str, cells)), others)
            raise self._fault(name, row, f"is no date while others are{more}")
        order = ""
        if orders[True][0] != orders[False][0]:
            taken = "day/month" if first else "month/day"
            order = f", read as {taken}: `-o day_first={str(not first).lower()}` turns them"
        self._decisions.add(
            "Dates became days since 1970-01-01",
            name,
            f"such as {shown(words[0])}{order}",
            "`-o words=NAMES` takes them as words, `-o ignore=NAMES` leaves them out",
        )
        return Column(name, "date", day_first=first), self._numbers(name, cells, days)

    def _check_mixture(self, name: str, cells: Sequence[str]) -> None:
        words = self._present(cells)
        others = [w for w in words if read_number(w) is None and read_number(w, ",") is None]
        if len(others) < len(words):
            row, more = self._first(cells, others or words)
            numbers = option("numbers", name)
            way = (
                f" take such cells as missing with `-o {numbers}`, take all as words with `-o "
                f"{option('words', name)}`,"
            )
            raise self._fault(name, row, f"is no number while others are{more}", way, numbers)

    def _follow(self, column: Column, name: str) -> Values:
        cells = self._table.columns[name]
        is_plain = "," not in (column.decimal, self._options.decimal) or self._table.is_typed
        if isinstance(cells, np.ndarray) and column.kind == "number" and is_plain:
            return self._numbers(name, cells)
        cells = self._table.text(name)
        words = self._present(cells)
        if column.kind == "number":
            # the mark of training, unless another one fits and this does not
            marks = dict.fromkeys((self._options.decimal or column.decimal, ".", ","))
            attempts = [_read_all(words, partial(read_number, decimal=mark)) for mark in marks]
        else:
            attempts = [_read_all(words, partial(read_date, day_first=column.day_first))]
        values, others = min(attempts, key=lambda attempt: len(attempt[1]))
        if others and name.casefold() not in map(str.casefold, self._options.numbers):
            row, more = self._first(cells, others)
            way = f" take such cells as missing with `-o {option('numbers', name)}`,"
            raise self._fault(name, row, f"is no {column.kind}, as in training{more}", way)
        return self._numbers(name, cells, values)

    def _say_unseen(self, found: TableFeatures, unseen: Mapping[str, Counter[str]]) -> None:
        unseen = {name: words for name, words in unseen.items() if words}
        if not unseen:
            return
        total = sum(words.total() for words in unseen.values())
        columns = Decisions()
        cells = "cell holds a word" if total == 1 else "cells hold words"
        for name, words in unseen.items():
            most = ", ".join(f"{shown(word)} {count:,}" for word, count in words.most_common(3))
            more = ", ..." if len(words) > 3 else ""
            columns.add(f"{total:,} {cells} that training never saw", name, f"{most}{more}")
        sentence = f"{self._table.place}: {columns.sentences()[0].rstrip('.')}"
        if self._options.unseen == "refuse":
            raise DatasetError(
                f"{sentence}: correct them, or take them as none of the known words with `-o "
                f"unseen=zeros`.",
                remedy="unseen=zeros",
            )
        found.warnings.append(
            f"{sentence}; their features are 0 (`-o unseen=refuse` makes this an error)."
        )

    def _present(self, cells: Cells) -> list[str]:
        return sorted(set(map(str, cells)) - self._missing)

    def _words(self, cells: Cells) -> list[str]:
        return [GAP if cell in self._missing else str(cell) for cell in cells]

    def _numbers(
        self, name: str, cells: Cells, values: Mapping[str, float] | None = None
    ) -> Values:
        """Numbers with NaN where one is missing; ``values`` says what each text means."""
        if not isinstance(cells, np.ndarray):
            read = [(values or {}).get(cell, math.nan) for cell in cells]
            with np.errstate(over="ignore"):
                cells = np.array(read).astype(np.float32)
        for word in self._options.missing_words:
            value = read_number(word)
            if value is not None:
                cells = np.where(cells == np.float32(value), np.float32(np.nan), cells)
        endless = np.isinf(cells)
        if np.count_nonzero(endless):  # ``any`` takes five times as long
            raise self._fault(name, int(endless.argmax()), "is not finite")
        return cells

    def _fault(
        self, name: str, row: int, fault: str, more: str = "", remedy: str = ""
    ) -> DatasetError:
        cell, leave = self._table.texts([name])[name][row], option("ignore", name)
        return DatasetError(
            f"{self._table.where(row)}: the cell {shown(cell)} in the column {shown(name)} "
            f"{fault}: correct it,{more} or leave the column out with `-o {leave}`.",
            remedy=remedy or leave,
        )

    def _tell_gaps(self, name: str, numbers: Values, how: str) -> int:
        gaps = self._count_gaps(name, np.isnan(numbers))
        if gaps:
            fill = "0" if self._options.missing == "zero" else "the mean of the training part"
            self._decisions.add(
                f"Missing numbers got {fill}{how}",
                name,
                f"{gaps:,} of {len(numbers):,}",
                "`-o missing=zero` takes 0, `-o missing=refuse` refuses them",
            )
        return gaps

    def _count_gaps(self, name: str, gaps: np.ndarray) -> int:
        """How many cells are missing; refuses any if the user says so."""
        count = int(np.count_nonzero(gaps))
        if not count or not (self._options.missing == "refuse" or self._options.categorical):
            return count
        more = f" (and {count - 1:,} more in this column)" if count > 1 else ""
        leave = option("ignore", name)
        mean = "" if self._options.categorical else " fill such cells with `-o missing=mean`,"
        raise DatasetError(
            f"{self._table.where(int(gaps.argmax()))}: a cell in the column {shown(name)} is "
            f"missing{more}: write it,{mean} or leave the column out with `-o {leave}`.",
            remedy=leave,
        )

    def _first(self, cells: Sequence[str], words: Iterable[str]) -> tuple[int, str]:
        """The first row with one of some words, and how many more there are."""
        wanted = set(words)
        rows = [row for row, cell in enumerate(cells) if cell in wanted]
        more = f" (and {len(rows) - 1:,} more in this column)" if len(rows) > 1 else ""
        return rows[0], more


def option(key: str, name: str) -> str:
    r"""Writes an option that lists a column, as a user may copy it."""
    return f"{key}={list_option([shown(name)[1:-1]])}"


def _read_all(
    words: Iterable[str], read: Callable[[str], float | None]
) -> tuple[dict[str, float], list[str]]:
    """The values of those words that can be read, and the others."""
    found = {word: read(word) for word in words}
    values = {word: value for word, value in found.items() if value is not None}
    return values, [word for word in found if word not in values]


def _one_hot(words: Sequence[str], values: Sequence[str]) -> Values:
    """One row of 0 and 1 for each value; a word that is none of them is 0 in all."""
    number = {value: position for position, value in enumerate(values)}
    codes = np.array([number.get(word, -1) for word in words], dtype=np.int64)
    hot: Values = (codes == np.arange(len(values))[:, None]).astype(np.float32)
    return hot
