"""A folder with ``nodes.csv`` and ``edges.csv``."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.options import Options
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
    Where,
    labels_from_numbers,
    labels_from_text,
    parse_number,
)
from torch_grama.datasets.raw_arrays import fingerprint

if TYPE_CHECKING:
    from _csv import Reader

# A column of words with more values than this is taken for names or prose, not for categories.
MOST_CATEGORIES = 20
# So few that Python's garbage collector does not start to look at them.
_ROWS_AT_A_TIME = 500


def read_csv_folder(folder: Path, options: Options) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target.

    ``nodes.csv`` has a column ``id`` (any text, each once), a label column (``label`` or ``y``, or
    the one or more named by the option ``label``), optionally ``split`` (train, val, test or
    empty), and features. ``edges.csv`` has ``source`` and ``target`` (ids of nodes), optionally
    ``weight``, and features. An empty label is a node without label; it is in no split.
    """
    for name, columns in (("nodes.csv", "id and label"), ("edges.csv", "source and target")):
        if not (folder / name).is_file():
            raise DatasetError(
                f"'{folder}' has no file '{name}': put it beside the other one, with the columns "
                f"{columns}."
            )
    check_node_level(folder, options)
    nodes, edges = CsvTable(folder / "nodes.csv"), CsvTable(folder / "edges.csv")
    for name in options.ignore:
        if name not in edges.columns:
            nodes.column(name)
    target = _label_columns(nodes, options)
    names = nodes.column("id")
    if not names:
        raise DatasetError(f"'{nodes.path}' has no rows below line 1: list at least one node.")
    _check_names(nodes)
    labels = None
    if options.targets:
        labels = _read_labels([nodes.column(name) for name in target], nodes.where, options)
    left_out = {"id", "split", *target, *options.ignore}
    x, feature_names, notes = nodes.features(left_out)
    if not feature_names:
        x, feature_names, notes = (
            np.ones((len(names), 1), np.float32),
            ("constant",),
            (CONSTANT_NOTE,),
        )
    data = Data(x=check_features(x, nodes.where, options, feature_names))
    notes += _read_edges(edges, names, data, options)
    splits = []
    if labels is not None and "split" in nodes.columns:
        source = f"The column 'split' of '{nodes.path}'"
        splits.append(split_from_words(nodes.column("split"), labels, nodes.where, source))
    return ParsedGraphs(
        path=folder,
        graphs=[data],
        level="node",
        labels=labels,
        splits=splits,
        identity=fingerprint(["nodes", *names]),
        target=target,
        notes=notes,
        feature_names=feature_names,
        node_names=tuple(names),
    )


class CsvTable:
    r"""A table with one line of column names; empty lines are skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = read_text(path).replace("\r\n", "\n")
        # Where the comma stands inside numbers, cells are separated by something else.
        self._delimiter = max(",;\t", key=self._text.split("\n", 1)[0].count)
        reader = self._read()
        rows = filter(None, reader)
        try:
            header = [name.strip() for name in next(rows, [])]
            self._check_header(header)
            cells: list[list[str]] = [[] for _ in header]
            while block := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
                for row in (row for row, found in enumerate(block) if len(found) != len(header)):
                    raise DatasetError(
                        f"{self.where(len(cells[0]) + row)} has {len(block[row])} cells where "
                        f"{len(header)} columns are named: complete the row, or put quotes around "
                        f"a cell with a separator in it."
                    )
                for column, part in zip(cells, zip(*block, strict=True), strict=True):
                    column.extend(map(str.strip, part))
        except csv.Error as error:
            raise DatasetError(
                f"'{path}', line {reader.line_num} cannot be read ({error}): check the quotes in "
                f"it, and that the file is whole."
            ) from error
        self.columns = dict(zip(header, cells, strict=True))

    def where(self, row: int) -> str:
        r"""Says where a row stands."""
        return f"'{self.path}', line {self.line(row)}"

    def line(self, row: int) -> int:
        r"""Returns the line on which a row ends; only a fault asks, so they are counted then."""
        reader = self._read()
        next(itertools.islice(filter(None, reader), row + 1, None))
        return reader.line_num

    def column(self, name: str) -> list[str]:
        r"""Returns the cells of a column that must be there."""
        if name in self.columns:
            return self.columns[name]
        known = list(self.columns)
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" (is it '{nearest[0]}'?)" if nearest else ""
        found = ", ".join(f"'{column}'" for column in known[:8])
        more = ", ..." if len(known) > 8 else ""
        raise DatasetError(
            f"'{self.path}', line 1 names no column '{name}'{hint}, only {found}{more}: add or "
            f"rename it."
        )

    def features(
        self, left_out: set[str]
    ) -> tuple[NDArray[np.float32], tuple[str, ...], tuple[str, ...]]:
        r"""Turns the other columns into numbers.

        A column whose cells are all numbers is one feature. A column in which no cell is a number
        is one feature for each of its values (1 where the cell has it, 0 elsewhere), provided that
        there are at most 20 values and on average each occurs twice. Everything else is an error.

        Returns:
            The matrix, the names of its columns, and what to tell the user about them.
        """
        count = len(next(iter(self.columns.values())))
        matrix = [np.zeros((count, 0), dtype=np.float32)]
        names: list[str] = []
        notes: list[str] = []
        for name, cells in self.columns.items():
            if name in left_out or not cells:
                continue
            numbers = _numbers(cells)
            if numbers is not None:
                with np.errstate(over="ignore"):
                    matrix.append(numbers.astype(np.float32)[:, None])
                for row in np.flatnonzero(~np.isfinite(matrix[-1]))[:1]:
                    raise self._fault(name, row, "is not finite")
                names.append(name)
            else:
                values = self._categories(name)
                codes = {value: code for code, value in enumerate(values)}
                matrix.append(np.eye(len(values), dtype=np.float32)[[codes[c] for c in cells]])
                names += [f"{name}={value}" for value in values]
                notes.append(
                    f"The words of the column '{name}' became {len(values)} features of 0 and 1."
                )
        return np.concatenate(matrix, axis=1), tuple(names), tuple(notes)

    def _check_header(self, header: list[str]) -> None:
        if not header:
            raise DatasetError(f"'{self.path}' is empty: write a line with the column names first.")
        for position, name in enumerate(header):
            if not name or name in header[:position]:
                problem = f"the name '{name}' twice" if name else "a column without a name"
                raise DatasetError(
                    f"'{self.path}', line 1 has {problem}: name each column differently."
                )

    def _read(self) -> Reader:
        text = io.StringIO(self._text, newline="")
        return csv.reader(text, delimiter=self._delimiter, strict=True)

    def _categories(self, name: str) -> list[str]:
        cells = self.columns[name]
        values = sorted(set(cells))
        if "" in values:
            raise self._fault(name, cells.index(""), "is empty")
        words = {value for value in values if _numbers([value]) is None}
        if len(words) < len(values):
            row = next(row for row, cell in enumerate(cells) if cell in words)
            raise self._fault(name, row, "is no number while others are")
        if len(values) > min(MOST_CATEGORIES, max(2, len(cells) // 2)):
            raise DatasetError(
                f"{self.where(0)}: the column '{name}' has {len(values)} different words such as "
                f"'{cells[0]}', too many to be categories: turn it into numbers, or leave it out "
                f"with 'ignore'."
            )
        return values

    def _fault(self, name: str, row: int, fault: str) -> DatasetError:
        return DatasetError(
            f"{self.where(row)}: the cell '{self.columns[name][row]}' in the column '{name}' "
            f"{fault}: correct it, or leave the column out with 'ignore'."
        )


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


def _numbers(cells: Sequence[str]) -> NDArray[np.float64] | None:
    if "_" in "".join(cells):  # Python would read 1_2 as twelve
        return None
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return None


def _label_columns(table: CsvTable, options: Options) -> tuple[str, ...]:
    """The columns of the target; a label column is no feature, whether it is read or not."""
    found = tuple(name for name in options.label or ("label", "y") if name in table.columns)
    if not options.targets:
        return found
    if len(found) == 2 and not options.label:
        raise DatasetError(
            f"'{table.path}', line 1 names both 'label' and 'y': say which holds the target with "
            f"'label', and leave the other out with 'ignore'."
        )
    return options.label or found or ("label",)


def _read_labels(cells: list[list[str]], where: Where, options: Options) -> Labels:
    if len(cells) == 1:
        return labels_from_text(cells[0], where, options)
    values = np.full((len(cells[0]), len(cells)), np.nan)
    for column, texts in enumerate(cells):
        for row, text in enumerate(texts):
            if text:
                values[row, column] = parse_number(text, where, row)
    integers = all("." not in text for texts in cells for text in texts)
    return labels_from_numbers(values, where, options, flags=integers)


def _check_names(table: CsvTable) -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(table.columns["id"]):
        if not name:
            raise DatasetError(f"{table.where(row)} has an empty 'id': give each node a name.")
        if first.setdefault(name, row) != row:
            raise DatasetError(
                f"{table.where(row)} lists the node '{name}' again, first seen on line "
                f"{table.line(first[name])}: keep one of the two."
            )


def _read_edges(
    table: CsvTable, names: Sequence[str], data: Data, options: Options
) -> tuple[str, ...]:
    """Puts the edges into a graph; returns what to tell the user about them."""
    number = {name: position for position, name in enumerate(names)}
    listed = np.array([_find(number, table, end) for end in ("source", "target")], dtype=np.int64)
    index, rows = complete_edges(listed, len(names), options.directed)
    data.edge_index = torch.from_numpy(index)
    note = direction_note(table.path, index.shape[1] - listed.shape[1], options.directed)
    others = {"source", "target", *options.ignore}
    weight, weight_names, _ = table.features(set(table.columns) - {"weight"} | others)
    if weight_names not in ((), ("weight",)):
        raise DatasetError(
            f"{table.where(0)} has words in the column 'weight': write numbers, or rename the "
            f"column."
        )
    if weight_names:
        data.edge_weight = torch.from_numpy(weight[:, 0])[rows]
    values, feature_names, notes = table.features({"weight"} | others)
    if feature_names:
        data.edge_attr = check_features(values, table.where, options, feature_names)[rows]
    return (note, *notes)


def _find(number: dict[str, int], table: CsvTable, end: str) -> list[int]:
    cells = table.column(end)
    try:
        return list(map(number.__getitem__, cells))
    except KeyError:
        row = next(row for row, cell in enumerate(cells) if cell not in number)
        raise DatasetError(
            f"{table.where(row)} names the node '{cells[row]}', which is not in 'nodes.csv': add "
            f"the node, or remove the edge."
        ) from None
