"""Two tables, nodes and edges, as one graph: files in a folder, or frames of pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError, Faults, shown
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.column_readers import ColumnReader, Decisions, TableFeatures
from torch_grama.datasets.own_data.graph_parts import (
    CONSTANT_NOTE,
    ParsedGraphs,
    check_features,
    check_node_level,
    complete_edges,
    direction_note,
    split_from_words,
)
from torch_grama.datasets.own_data.labels import (
    Labels,
    labels_from_numbers,
    labels_from_text,
    parse_number,
)
from torch_grama.datasets.own_data.table_files import (
    MISSING,
    ChooseText,
    FrameTable,
    Table,
    read_number,
    read_table,
)
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.task_data import Column, Fold, TableForm

if TYPE_CHECKING:
    from pandas import DataFrame

TABLE_SUFFIXES = (".csv", ".parquet")
_ReadTable = Callable[[ChooseText], Table]

# What columns may be called, in upper or lower case, the best name first.
_NAMES = {
    "id": ("id", "node_id", "nodeid", "node"),
    "label": ("label", "y", "labels", "class", "target"),
    "split": ("split",),
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
    "weight": ("weight",),
}


def read_table_folder(
    folder: Path, options: Options, form: TableForm | None = None
) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target.

    ``nodes.csv`` has a column ``id`` (any text, each once), a label column (``label`` or ``y``, or
    the one or more named by the option ``label``), optionally ``split`` (train, val, test or
    empty), and features. ``edges.csv`` has ``source`` and ``target`` (ids of nodes), optionally
    ``weight``, and features. An empty label is a node without label; it is in no split. Either
    file may be a Parquet file instead.
    """
    check_node_level(f"'{folder}'", options)
    files = []
    for stem, columns in (("nodes", "id and label"), ("edges", "source and target")):
        found = [path for s in TABLE_SUFFIXES if (path := folder / f"{stem}{s}").is_file()]
        if not found:
            raise DatasetError(
                f"'{folder}' has no file '{stem}.csv': put it beside the other one, with the "
                f"columns {columns}."
            )
        if len(found) > 1:
            raise DatasetError(
                f"'{folder}' has both '{found[0].name}' and '{found[1].name}': keep one of them."
            )
        files.append(found[0])
    nodes, edges = (partial(read_table, file) for file in files)
    return _GraphReader(options, form).read(folder, nodes, edges)


def read_frames(
    nodes: DataFrame, edges: DataFrame, options: Options, form: TableForm | None = None
) -> ParsedGraphs:
    r"""Reads the same from two frames of pandas; without an id, the index names the nodes."""
    check_node_level("The frame of nodes", options)
    if options.id is None and not any(str(n).casefold() in _NAMES["id"] for n in nodes.columns):
        nodes = nodes.rename_axis("id").reset_index()
    named = {"The frame of nodes": nodes, "The frame of edges": edges}
    tables = (partial(FrameTable, frame, place) for place, frame in named.items())
    return _GraphReader(options, form).read(None, *tables)


class _GraphReader:
    """Makes a graph of two tables; all faults are told at once."""

    def __init__(self, options: Options, form: TableForm | None) -> None:
        self._options, self._form, self._faults = options, form, Faults()
        self._ignored = {name.casefold() for name in options.ignore}
        self._decisions = Decisions()
        self._taken: dict[str, str] = {}  # roles whose columns have another than the best name

    def read(
        self, path: Path | None, read_nodes: _ReadTable, read_edges: _ReadTable
    ) -> ParsedGraphs:
        form, place = self._form or TableForm(), "PATH" if path is None else path
        tables: list[Table] = []
        with self._faults:
            tables.append(read_nodes(self._choose_text(("id", "label", "split"), form.nodes)))
        with self._faults:
            tables.append(read_edges(self._choose_text(("source", "target"), form.edges)))
        self._faults.check(place)
        parsed = self._join(path, *tables)
        self._faults.check(place)
        return parsed

    def _choose_text(self, roles: Iterable[str], columns: Sequence[Column]) -> ChooseText:
        """Which columns are names or words, whatever their cells look like."""
        options = self._options
        given = (options.id, options.source, options.target, *options.label, *options.words)
        wanted = {name for role in roles for name in _NAMES[role]}
        wanted |= {name.casefold() for name in given if name}
        wanted |= {column.name.casefold() for column in columns if column.kind == "words"}
        return lambda names: {name for name in names if name.casefold() in wanted}

    def _join(self, path: Path | None, nodes: Table, edges: Table) -> ParsedGraphs:
        options = self._options
        named = dict.fromkeys((*options.ignore, *options.words, *options.numbers))
        for name in named if self._form is None else ():
            with self._faults:
                if not edges.alike(name):
                    nodes.find(name)
        names: list[str] = []
        target: tuple[str, ...] = ()
        labels: Labels | None = None
        taken: list[str | None] = []
        with self._faults:
            taken.append(self._need(nodes, "id"))
            names = _read_ids(nodes, str(taken[0]))
        with self._faults:
            target = self._find_labels(nodes)
        split = self._find(nodes, "split")
        columns = self._columns(nodes, [*taken, *target, split])
        reader = self._reader(nodes, [*columns, *target])
        with self._faults:
            if options.targets and nodes.num_rows and target:
                labels = self._labels(nodes, reader, target)
        splits = self._splits(nodes, split, labels)
        form = None if self._form is None else self._form.nodes
        features = reader.learn(columns) if form is None else reader.follow(form, columns)
        data = Data()
        edge_features, weight, note = self._edges(edges, names, data)
        notes = [*self._found_by_name(), *self._decisions.sentences(), *note]
        if features.columns:
            with self._faults:
                data.x = self._tensor(nodes, features)
        else:
            data.x = torch.ones(len(names), 1)
            notes.append(CONSTANT_NOTE)
        return ParsedGraphs(
            path=path,
            graphs=[data],
            level="node",
            labels=labels,
            splits=splits,
            identity=fingerprint(["nodes", *names]),
            target=target,
            notes=tuple(notes),
            warnings=(*features.warnings, *edge_features.warnings),
            feature_names=features.names or ("constant",),
            edge_feature_names=edge_features.names,
            node_names=tuple(names),
            form=TableForm(tuple(features.columns), tuple(edge_features.columns), weight),
        )

    def _find(self, table: Table, role: str) -> str | None:
        """The column of a role, by the option of that name or by what it is called."""
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

    def _need(self, table: Table, role: str) -> str:
        remedy = f"add or rename it, or say which column it is with `-o {role}=NAME`"
        return self._find(table, role) or table.find(role, remedy)

    def _find_labels(self, table: Table) -> tuple[str, ...]:
        """The columns of the target; none is a feature, whether it is read or not."""
        wanted = self._options.label or _NAMES["label"][:2]
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
        return (self._need(table, "label"),)

    def _found_by_name(self) -> list[str]:
        if not self._taken:
            return []
        found = ", ".join(f"{shown(name)} is the {role}" for role, name in self._taken.items())
        changeable = [role for role in self._taken if role not in ("split", "weight")]
        ways = ", ".join(f"`-o {role}=NAME`" for role in changeable)
        return [f"Columns were found by what they are called: {found} ({ways} names another)."]

    def _labels(self, table: Table, reader: ColumnReader, target: Sequence[str]) -> Labels:
        cells = list(map(reader.read_labels, target))
        if len(cells) == 1:
            return labels_from_text(cells[0], table.where, self._options)
        values = np.full((table.num_rows, len(cells)), np.nan)
        for column, texts in enumerate(cells):
            for row, text in enumerate(texts):
                if text:
                    values[row, column] = parse_number(text, table.where, row)
        whole = all("." not in text for texts in cells for text in texts)
        return labels_from_numbers(values, table.where, self._options, flags=whole, names=target)

    def _splits(self, table: Table, column: str | None, labels: Labels | None) -> list[Fold]:
        if column is None or labels is None:
            return []
        words = ["" if word in MISSING else word for word in table.text(column)]
        with self._faults:
            source = f"The column {shown(column)} of {table.name}"
            return [split_from_words(words, labels.labelled, table.where, source)]
        return []

    def _columns(self, table: Table, taken: Sequence[str | None]) -> list[str]:
        """The columns that are features."""
        return [n for n in table.columns if n not in taken and n.casefold() not in self._ignored]

    def _reader(self, table: Table, names: Sequence[str]) -> ColumnReader:
        return ColumnReader(table, names, self._options, self._faults, self._decisions)

    def _tensor(self, table: Table, features: TableFeatures) -> torch.Tensor:
        matrix = features.matrix(table.num_rows)
        if self._options.categorical:
            return check_features(matrix.numpy(), table.where, self._options, features.names)
        return matrix

    def _edges(
        self, table: Table, names: Sequence[str], data: Data
    ) -> tuple[TableFeatures, Column | None, list[str]]:
        """Puts the edges into a graph; returns what became of their columns, and a note."""
        number = {name: position for position, name in enumerate(names)}
        ends: list[list[int]] = []
        taken: list[str | None] = []
        for role in ("source", "target"):
            with self._faults:
                taken.append(self._need(table, role))
                ends.append(_positions(number, table, str(taken[-1])) if names else [])
        weight = self._find(table, "weight")
        weights: tuple[Column, NDArray[np.float32]] | None = None
        if weight and weight.casefold() in self._ignored:
            weight = None
        columns, form = self._columns(table, [*taken, weight]), self._form
        reader = self._reader(table, [*columns, weight] if weight else columns)
        if weight and table.num_rows:
            with self._faults:
                weights = reader.read_weights(weight, None if form is None else form.weight)
        features = reader.learn(columns) if form is None else reader.follow(form.edges, columns)
        if len(ends) < 2:
            return features, None, []
        listed = np.array(ends, dtype=np.int64).reshape(2, -1)
        index, rows = complete_edges(listed, len(names), self._options.directed)
        data.edge_index = torch.from_numpy(index)
        if weights is not None and names:
            data.edge_weight = torch.from_numpy(weights[1])[rows]
        if features.columns and names:
            with self._faults:
                data.edge_attr = self._tensor(table, features)[rows]
        added = index.shape[1] - listed.shape[1]
        note = direction_note(table.name, added, self._options.directed)
        return features, None if weights is None else weights[0], [note]


def _read_ids(table: Table, column: str) -> list[str]:
    names = table.text(column)
    if not names:
        raise DatasetError(f"{table.place} has no rows below line 1: list at least one node.")
    first: dict[str, int] = {}
    again = [row for row, name in enumerate(names) if first.setdefault(name, row) != row]
    if "" in first:
        raise DatasetError(
            f"{table.where(first[''])} has an empty {shown(column)}: give each node a name."
        )
    for row in again[:1]:
        more = f" ({len(again):,} rows repeat a node)" if len(again) > 1 else ""
        before = table.where(first[names[row]]).removeprefix(f"{table.place}, ")
        raise DatasetError(
            f"{table.where(row)} lists the node {shown(names[row])} again, first seen on "
            f"{before}{more}: keep one of the two."
        )
    return names


def _positions(number: dict[str, int], table: Table, column: str) -> list[int]:
    cells = table.text(column)
    try:
        return list(map(number.__getitem__, cells))
    except KeyError:
        wrong = [row for row, cell in enumerate(cells) if cell not in number]
        more = f" (and {len(wrong) - 1:,} more edges name such nodes)" if len(wrong) > 1 else ""
        cell, remedy = cells[wrong[0]], "add the node, or remove the edge"
        value = read_number(cell)
        twin = next((n for n in number if value is not None and read_number(n) == value), None)
        if twin is not None:
            remedy = (
                f"write the ids of both tables alike, since {shown(twin)} is among them and one "
                f"table was probably saved with its ids as numbers"
            )
        raise DatasetError(
            f"{table.where(wrong[0])} names the node {shown(cell)}, which is not among the "
            f"nodes{more}: {remedy}."
        ) from None
