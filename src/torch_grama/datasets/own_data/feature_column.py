"""One column of features in a table: numbers, or words with few values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError

# A column of words with more values than this is taken for names or prose, not for categories.
MOST_CATEGORIES = 20


class FeatureColumn:
    r"""Collects the cells of a column and turns them into one or more columns of numbers.

    A column whose cells are all numbers is one feature. A column in which no cell is a number is
    one feature for each of its values (1 where the cell has it, 0 elsewhere), provided that there
    are at most 20 values and on average each occurs twice. Everything else is an error.

    Args:
        name (str): Its name.
        path (Path): The file, for errors.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._numbers: list[NDArray[np.float32]] = []
        self._words: list[str] = []
        self._first_line = 0

    def add(self, cells: Sequence[str], lines: NDArray[np.int64]) -> None:
        r"""Takes the next cells.

        Args:
            cells (sequence of str): The cells, without spaces around them.
            lines (ndarray): The line of each.

        Raises:
            DatasetError: A cell is empty, not finite, or does not fit the others.
        """
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
        r"""Returns the columns of numbers, their names, and what to tell the user about them.

        Raises:
            DatasetError: There are too many different words.
        """
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
    r"""Puts the features of several columns side by side.

    Args:
        columns (sequence of FeatureColumn): At least one, each with all of its cells.

    Returns:
        The features ``[M, F]``, their names, and what to tell the user about them.
    """
    finished = [column.finish() for column in columns]
    return (
        np.concatenate([values for values, _, _ in finished], axis=1),
        tuple(name for _, names, _ in finished for name in names),
        tuple(note for _, _, note in finished if note is not None),
    )
