"""The columns of a table, read as those that a model was trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.own_data.cells import read_date, read_number
from torch_grama.datasets.own_data.columns import (
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
                    words = self._words(self._texts(name, cells))
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

    def _texts(self, name: str, cells: Cells) -> list[str]:
        return self._table.texts([name])[name] if isinstance(cells, np.ndarray) else list(cells)

    def _follow(self, column: Column, name: str, cells: Cells) -> Values:
        if isinstance(cells, np.ndarray) and (column.kind, column.decimal) == ("number", "."):
            return self._numbers(name, cells)
        cells = self._texts(name, cells)
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
