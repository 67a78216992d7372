"""Columns of a table: what each is for, by its name, and what becomes a feature, with its gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError, Faults, shown
from torch_grama.datasets.options import Options, list_option
from torch_grama.datasets.own_data.cells import MISSING, read_number
from torch_grama.datasets.own_data.table_files import Cells, ChooseText, Table
from torch_grama.datasets.task_data import Column, TableForm

# What columns may be called, in upper or lower case, the best name first.
_NAMES = {
    "id": ("id", "node_id", "nodeid", "node"),
    "label": ("label", "y", "labels", "class", "target"),
    "split": ("split",),
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
    "weight": ("weight",),
}
NODE_ROLES, EDGE_ROLES = ("id", "label", "split"), ("source", "target", "weight")


def text_columns(roles: Sequence[str], options: Options, columns: Sequence[Column]) -> ChooseText:
    r"""Says which columns are names or words, whatever their cells look like."""
    given = (options.id, options.source, options.target, *options.label, *options.words)
    wanted = {name for role in roles if role != "weight" for name in _NAMES[role]}
    wanted |= {name.casefold() for name in given if name}
    wanted |= {column.name.casefold() for column in columns if column.kind == "words"}
    return lambda names: {name for name in names if name.casefold() in wanted}


def has_role(names: Iterable[str], role: str) -> bool:
    r"""Whether a column is called as those of a role are."""
    return any(name.casefold() in _NAMES[role] for name in names)


class Roles:
    r"""Finds columns by what they are for, and keeps what is to be said about it.

    Args:
        options (Options): What the user says.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._taken: dict[str, str] = {}

    def find(self, table: Table, role: str) -> str | None:
        r"""Returns the column of a role, by the option of that name or by what it is called."""
        given = getattr(self._options, role, None) if role not in ("label", "split") else None
        if given is not None:
            return table.find(given)
        best = _NAMES[role][0]
        found = [name for word in _NAMES[role] for name in table.alike(word)]
        if len(found) > 1 and found[0] != best:
            raise DatasetError(
                f"{table.header} names both {shown(found[0])} and {shown(found[1])}: say "
                f"which is the {role} with `-o {role}={found[0]}`.",
                remedy=f"{role}={found[0]}",
            )
        if found and found[0] not in (best, "y"):
            self._taken[role] = found[0]
        return found[0] if found else None

    def need(self, table: Table, role: str) -> str:
        r"""Returns the column of a role that must be there."""
        why = f"add or rename it, or say which column it is with `-o {role}=NAME`"
        return self.find(table, role) or table.find(role, why)

    def labels(self, table: Table) -> tuple[str, ...]:
        r"""Returns the columns of the target; none is a feature, whether it is read or not."""
        usual = _NAMES["label"][:2]
        wanted = self._options.label or usual
        found = [name for word in wanted for name in table.alike(word)]
        if not self._options.targets:
            return tuple(found)
        if self._options.label:
            return tuple(map(table.find, self._options.label))
        if len(found) > 1:
            raise DatasetError(
                f"{table.header} names both {shown(found[0])} and {shown(found[1])}: say "
                f"which holds the target with `-o label={found[0]} -o ignore={found[1]}`.",
                remedy=f"label={found[0]} -o ignore=[{found[1]}]",
            )
        return (self.need(table, "label"),)

    @property
    def notes(self) -> list[str]:
        r"""What was found under another name than the best one."""
        if not self._taken:
            return []
        found = ", ".join(f"{shown(name)} is the {role}" for role, name in self._taken.items())
        ways = ", ".join(f"`-o {role}=NAME`" for role in self._taken if role in _CHANGED)
        return [f"Columns were found by what they are called: {found} ({ways} names another)."]


_CHANGED = ("id", "label", "source", "target")


GAP = "(missing)"
"""The word of a cell without one; ``age=(missing)`` is 1 where the number is missing."""
Values = NDArray[np.float32]
_LISTED = 8


@dataclass
class TableFeatures:
    r"""What became of the columns of a table."""

    columns: list[Column] = field(default_factory=list)  # in the order of their features
    values: list[Values] = field(default_factory=list)  # ``[K, N]`` a column; NaN: missing
    warnings: list[str] = field(default_factory=list)  # what to look at, one sentence each

    @property
    def names(self) -> tuple[str, ...]:
        r"""What the features are called."""
        return tuple(name for column in self.columns for name in feature_names(column))

    def add(self, column: Column, values: Values) -> None:
        r"""Adds a column: numbers ``[N]``, or one row of 0 and 1 for each word."""
        self.columns.append(column)
        if column.kind != "words":
            values = np.stack([values, np.isnan(values)]) if column.flag else values[None]
        self.values.append(values)

    def matrix(self, rows: int) -> Tensor:
        r"""Returns the features ``[N, F]``."""
        blank = np.empty((0, rows), dtype=np.float32)
        return torch.from_numpy(np.concatenate([blank, *self.values])).t().contiguous()


def feature_names(column: Column) -> tuple[str, ...]:
    r"""What the features of a column are called."""
    if column.kind == "words":
        return tuple(f"{column.name}={value}" for value in column.values)
    return (column.name, f"{column.name}={GAP}") if column.flag else (column.name,)


class Decisions:
    r"""What was decided about columns, the same decision about several of them in one sentence."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def add(self, decision: str, name: str, detail: str = "", change: str = "") -> None:
        r"""Adds a column; ``change`` says how to decide otherwise, with NAMES for the columns."""
        text = f"{shown(name)} ({detail})" if detail else shown(name)
        self._taken.setdefault((decision, change), []).append((name, text))

    def sentences(self) -> tuple[str, ...]:
        r"""Returns one sentence for each decision."""
        found = []
        for (decision, change), columns in self._taken.items():
            names, texts = zip(*columns[:_LISTED], strict=True)
            option = list_option(shown(name)[1:-1] for name in names)
            more = f" and {len(columns) - _LISTED:,} more" if len(columns) > _LISTED else ""
            what = ", ".join(texts) + more
            how = f"; {change.replace('NAMES', option)}" if change else ""
            found.append(f"{decision}: {what}{how}.")
        return tuple(found)


class ColumnReader:
    r"""Reads the columns of a table; gathers faults, and what is to be said.

    Args:
        table (Table): The table.
        options (Options): What the user says about it.
        faults (Faults): Takes the faults.
        decisions (Decisions): Takes what was decided.
    """

    def __init__(
        self, table: Table, options: Options, faults: Faults, decisions: Decisions
    ) -> None:
        self._table, self._options = table, options
        self._faults, self._decisions = faults, decisions
        self._missing = MISSING | set(options.missing_words)

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

    def _fault(self, name: str, row: int, fault: str, more: str = "") -> DatasetError:
        cell, leave = self._table.texts([name])[name][row], option("ignore", name)
        return DatasetError(
            f"{self._table.where(row)}: the cell {shown(cell)} in the column {shown(name)} "
            f"{fault}: correct it,{more} or leave the column out with `-o {leave}`.",
            remedy=leave,
        )

    def _check_gaps(self, name: str, gaps: Sequence[bool]) -> None:
        refuses = self._options.missing == "refuse" or self._options.categorical
        if not refuses or not any(gaps):
            return
        more = f" (and {sum(gaps) - 1:,} more in this column)" if sum(gaps) > 1 else ""
        leave = option("ignore", name)
        mean = "" if self._options.categorical else " fill such cells with `-o missing=mean`,"
        raise DatasetError(
            f"{self._table.where(gaps.index(True))}: a cell in the column {shown(name)} is "
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


def read_all(
    words: Iterable[str], read: Callable[[str], float | None]
) -> tuple[dict[str, float], list[str]]:
    r"""Reads words; returns the values of those that can be read, and the others."""
    found = {word: read(word) for word in words}
    values = {word: value for word, value in found.items() if value is not None}
    return values, [word for word in found if word not in values]


def one_hot(words: Sequence[str], values: Sequence[str]) -> Values:
    r"""Returns one row of 0 and 1 for each value; a word that is none of them is 0 in all."""
    number = {value: position for position, value in enumerate(values)}
    codes = np.array([number.get(word, -1) for word in words], dtype=np.int64)
    hot: Values = (codes == np.arange(len(values))[:, None]).astype(np.float32)
    return hot


def fill_gaps(
    graph: Data, form: TableForm, train: Tensor, options: Options, *, known: bool
) -> tuple[TableForm, tuple[str, ...]]:
    r"""Puts a number into the place of each NaN of a graph that came out of tables.

    Args:
        graph (Data): The graph, filled in place.
        form (TableForm): How its tables were read.
        train (Tensor): Which nodes are of the training part. Means are taken over them, and over
            the edges between them.
        options (Options): What the user says about missing cells.
        known (bool): Whether the form has the numbers already, from training.

    Returns:
        The form with the numbers, and what a user should look at.
    """
    empty = Decisions()
    source, target = graph["edge_index"]
    inside = train[source] & train[target]
    if not bool(inside.any()):
        inside = torch.ones_like(inside)
    weight = () if form.weight is None else (form.weight,)
    filled = []
    for key, columns, rows in (
        ("x", form.nodes, train),
        ("edge_attr", form.edges, inside),
        ("edge_weight", weight, inside),
    ):
        values = graph.get(key)
        if values is None or not columns or not values.is_floating_point():
            filled.append(columns)
            continue
        table = values if values.dim() == 2 else values[:, None]
        gaps = table.isnan()
        has_gaps = bool(gaps.any())
        if not known:
            mean = torch.nanmean if has_gaps else torch.mean  # which takes a third of the time
            means = mean(table[rows], dim=0, dtype=torch.double).tolist()
            columns = _measured(means, columns, options.missing == "zero", empty)
        filled.append(columns)
        if has_gaps:
            fills = [fill for c in columns for fill in (c.fill, *[0.0] * (_width(c) - 1))]
            table[gaps] = torch.tensor(fills, dtype=table.dtype).expand_as(table)[gaps]
    nodes, edges, weights = filled
    return TableForm(nodes, edges, weights[0] if weights else None), empty.sentences()


def _measured(
    means: Sequence[float], columns: Sequence[Column], zero: bool, empty: Decisions
) -> tuple[Column, ...]:
    """Columns with their means."""
    measured, first = [], 0
    for column in columns:
        mean = means[first]
        first += _width(column)
        if column.kind != "words" and not zero:
            if math.isnan(mean):
                mean = 0.0
                what = "Columns have no value in the training part, and got 0 where one is missing"
                empty.add(what, column.name, change="`-o ignore=NAMES` leaves them out")
            column = Column(**{**vars(column), "fill": mean})  # replace() takes ten times as long
        measured.append(column)
    return tuple(measured)


def _width(column: Column) -> int:
    return len(column.values) if column.kind == "words" else 1 + column.flag
