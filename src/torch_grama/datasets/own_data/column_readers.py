"""How the columns of a table are read: found out from their cells, or as those of training were."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.own_data.cells import read_date, read_number
from torch_grama.datasets.own_data.columns import (
    GAP,
    ColumnReader,
    Decisions,
    TableFeatures,
    Values,
    one_hot,
    option,
    read_all,
)
from torch_grama.datasets.own_data.table_files import Cells
from torch_grama.datasets.task_data import Column
from torch_grama.runs.words import format_count


def most_categories(rows: int) -> int:
    r"""How many different words a column of categories has at most; more are names or prose."""
    return min(max(2, rows // 2), max(20, min(100, math.isqrt(rows))))


class ColumnLearner(ColumnReader):
    r"""Decides how columns are read; every decision is a note."""

    def read(self, names: Collection[str]) -> TableFeatures:
        r"""Reads columns by name: numbers, else dates, else words."""
        found = TableFeatures()
        columns = {name: self._table.columns[name] for name in names}
        self._decimal = self._options.decimal or self._find_decimal(columns.values())
        if self._decimal == "," and self._table.num_rows:  # 1.234 may be a thousand here
            columns |= self._table.texts(names)
        for name, cells in columns.items() if self._table.num_rows else ():
            with self._faults:
                self._learn(found, name, cells)
        return found

    def read_number(self, name: str) -> tuple[Column, Values]:
        r"""Reads a column that must hold numbers."""
        self._decimal = self._options.decimal
        read = self._as_number(name, self._table.columns[name])
        if read is None:
            raise DatasetError(
                f"{self._table.where(0)} has words in the column {shown(name)}: write numbers, or "
                f"leave the column out with `-o {option('ignore', name)}`.",
                remedy=option("ignore", name),
            )
        self._tell_gaps(name, read[1], "")
        return read

    def _find_decimal(self, columns: Collection[Cells]) -> str | None:
        """The comma, if the numbers of some column can be read with it alone."""
        for cells in columns:
            words = [] if isinstance(cells, np.ndarray) else self._present(cells)
            with_point = all(read_number(word) is not None for word in words)
            if not with_point and all(read_number(word, ",") is not None for word in words):
                return ","
        return None

    def _learn(self, found: TableFeatures, name: str, cells: Cells) -> None:
        as_words = name.casefold() in map(str.casefold, self._options.words)
        read = None
        if not as_words:
            read = self._as_number(name, cells) or self._as_date(name, cells)
        if read is None:
            self._learn_words(found, name, cells, as_words)
            return
        column, numbers = read
        gaps = np.count_nonzero(np.isnan(numbers))
        if gaps == len(numbers):
            self._decisions.add("Columns without any value were left out", name)
            return
        if gaps:
            column = replace(column, flag=True)
            self._tell_gaps(name, numbers, f", and a feature NAME={GAP} that marks them")
        found.add(column, numbers)

    def _tell_gaps(self, name: str, numbers: Values, how: str) -> None:
        gaps = np.isnan(numbers)
        if gaps.any():
            self._check_gaps(name, gaps.tolist())
            fill = "0" if self._options.missing == "zero" else "the mean of the training part"
            self._decisions.add(
                f"Missing numbers got {fill}{how}",
                name,
                f"{gaps.sum():,} of {len(gaps):,}",
                "`-o missing=zero` takes 0, `-o missing=refuse` refuses them",
            )

    def _learn_words(self, found: TableFeatures, name: str, cells: Cells, as_words: bool) -> None:
        words = self._words(cells)
        gaps = words.count(GAP)
        values = [*sorted(set(words) - {GAP}), *[GAP] * (gaps > 0)]
        if not as_words:
            self._check_mixture(name, list(map(str, cells)))
            if len(values) > most_categories(len(words)):
                self._decisions.add(
                    "Columns with too many different words to be categories were left out",
                    name,
                    f"{len(values):,} words",
                    "`-o words=NAMES` keeps them",
                )
                return
        self._check_gaps(name, [word == GAP for word in words])
        without = f", and {format_count(gaps, 'cell')} without one" if gaps else ""
        self._decisions.add(
            "Words became features of 0 and 1",
            name,
            f"{format_count(len(values) - (gaps > 0), 'word')}{without}",
            "`-o ignore=NAMES` leaves them out",
        )
        found.add(Column(name, "words", values=tuple(values)), one_hot(words, values))

    def _as_number(self, name: str, cells: Cells) -> tuple[Column, Values] | None:
        """Numbers with points, commas or marks of thousands; nothing where there are words."""
        if isinstance(cells, np.ndarray):
            return Column(name), self._numbers(name, cells)
        words = self._present(cells)
        marks = {mark: read_all(words, partial(read_number, decimal=mark)) for mark in ".,"}
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
        some = words[:8] + words[-8:]
        readers = {first: partial(read_date, day_first=first) for first in (True, False)}
        if not any(read_all(some, read)[0] for read in readers.values()):
            return None
        orders = {first: read_all(words, read) for first, read in readers.items()}
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
        if len(others) == len(words):
            return
        row, more = self._first(cells, others or words)
        fault = self._fault(
            name,
            row,
            f"is no number while others are{more}",
            f" take such cells as missing with `-o {option('numbers', name)}`, take all as words "
            f"with `-o {option('words', name)}`,",
        )
        raise DatasetError(str(fault), remedy=option("numbers", name))


class ColumnFollower(ColumnReader):
    r"""Reads columns in a given way; what training did not have is a warning."""

    def read(self, columns: Sequence[Column], names: Collection[str]) -> TableFeatures:
        r"""Reads columns, of the features that a table has.

        Args:
            columns (sequence of Column): How, in which order.
            names (collection of str): The features that the table has.
        """
        found = TableFeatures()
        unseen: dict[str, Counter[str]] = {}
        gapped = Decisions()
        for column in columns if self._table.num_rows else ():
            with self._faults:
                name = self._table.find(column.name, "the model was trained on it, add it")
                cells = self._table.columns[name]
                if column.kind == "words":
                    words = self._words(self._table.text(name))
                    found.add(column, one_hot(words, column.values))
                    new = Counter(words)
                    for word in column.values:
                        del new[word]
                    if new:
                        unseen[name] = new
                    continue
                numbers = self._follow(column, name, cells)
                self._check_gaps(name, np.isnan(numbers).tolist())
                found.add(column, numbers)
                gaps = int(np.isnan(numbers).sum())
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

    def _follow(self, column: Column, name: str, cells: Cells) -> Values:
        if isinstance(cells, np.ndarray) and (column.kind, column.decimal) == ("number", "."):
            return self._numbers(name, cells)
        cells = self._table.text(name)
        words = self._present(cells)
        if column.kind == "number":
            # the mark of training, unless another one fits and this does not
            marks = dict.fromkeys((self._options.decimal or column.decimal, ".", ","))
            attempts = [read_all(words, partial(read_number, decimal=mark)) for mark in marks]
        else:
            attempts = [read_all(words, partial(read_date, day_first=column.day_first))]
        values, others = min(attempts, key=lambda attempt: len(attempt[1]))
        if others and name.casefold() not in map(str.casefold, self._options.numbers):
            row, more = self._first(cells, others)
            way = f" take such cells as missing with `-o {option('numbers', name)}`,"
            raise self._fault(name, row, f"is no {column.kind}, as in training{more}", way)
        return self._numbers(name, cells, values)

    def _say_unseen(self, found: TableFeatures, unseen: Mapping[str, Counter[str]]) -> None:
        if not unseen:
            return
        total = sum(sum(words.values()) for words in unseen.values())
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
