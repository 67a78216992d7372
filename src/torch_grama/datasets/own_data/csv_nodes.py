"""``nodes.csv``: names, labels, split and features of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.csv_table import CsvTable
from torch_grama.datasets.own_data.feature_column import FeatureColumn, join_columns
from torch_grama.datasets.own_data.labels import (
    Labels,
    Where,
    labels_from_numbers,
    no_labels,
)
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.text_labels import labels_from_text, parse_number


@dataclass(frozen=True)
class NodeTable:
    r"""The nodes of a graph.

    Attributes:
        path: The file.
        names: The ``id`` of each node.
        lines: The line of each node.
        target: The label columns.
        labels: Their targets.
        parts: The words of the column ``split``, if there is one.
        x: Their features.
        feature_names: Names of the features.
        notes: What was decided while reading, one sentence each.
    """

    path: Path
    names: Sequence[str]
    lines: NDArray[np.int64]
    target: tuple[str, ...]
    labels: Labels
    parts: Sequence[str] | None
    x: NDArray[np.float32]
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]

    def where(self, row: int) -> str:
        """Says where a node stands."""
        return f"'{self.path}', line {self.lines[row]}"


def read_nodes(table: CsvTable, options: Options) -> NodeTable:
    r"""Reads the nodes of a graph.

    Args:
        table (CsvTable): The file.
        options (Options): What the user said.

    Raises:
        DatasetError: A column is missing, a node is listed twice, or a cell cannot be read.
    """
    label_names = _label_columns(table, options)
    if not options.targets:  # a label column is no feature, whether there is one or not
        label_names = tuple(name for name in label_names if name in table.columns)
    wanted = ["id", *label_names, *(["split"] if "split" in table.columns else [])]
    plain: dict[str, list[str]] = {name: [] for name in wanted}
    positions = {name: table.position(name) for name in wanted}
    columns = {
        position: FeatureColumn(name, table.path)
        for position, name in enumerate(table.columns)
        if name not in plain and name not in options.ignore
    }
    portions: list[NDArray[np.int64]] = []
    for portion in table.portions():
        portions.append(portion.lines)
        for name, cells in plain.items():
            cells.extend(portion.columns[positions[name]])
        for position, column in columns.items():
            column.add(portion.columns[position], portion.lines)
    if not portions:
        raise DatasetError(f"'{table.path}' has no rows below line 1: list at least one node.")
    names, lines = plain["id"], np.concatenate(portions)
    _check_names(table.path, names, lines)

    def where(row: int) -> str:
        return f"'{table.path}', line {lines[row]}"

    if options.targets:
        labels = _read_labels([plain[name] for name in label_names], where, options)
    else:
        labels = no_labels(len(names), options)
    if columns:
        x, feature_names, notes = join_columns(list(columns.values()))
    else:
        x, feature_names = np.ones((len(lines), 1), dtype=np.float32), ("constant",)
        notes = ("The nodes have no features: each got the constant 1.",)
    parts = plain.get("split") if options.targets else None
    return NodeTable(table.path, names, lines, label_names, labels, parts, x, feature_names, notes)


def _label_columns(table: CsvTable, options: Options) -> tuple[str, ...]:
    if options.label:
        return options.label
    found = [name for name in ("label", "y") if name in table.columns]
    if len(found) == 2 and not options.targets:
        return ("label", "y")
    if len(found) == 2:
        raise DatasetError(
            f"'{table.path}', line 1 names both 'label' and 'y': say which holds the target with "
            f"'label', and leave the other out with 'ignore'."
        )
    return (found[0] if found else "label",)


def _read_labels(cells: list[list[str]], where: Where, options: Options) -> Labels:
    if len(cells) == 1:
        return labels_from_text(cells[0], where, options)
    values = np.full((len(cells[0]), len(cells)), np.nan)
    for column, texts in enumerate(cells):
        for row, text in enumerate(texts):
            if text:
                values[row, column] = parse_number(text, where(row), "label")
    integers = all("." not in text for texts in cells for text in texts)
    return labels_from_numbers(values, where, options, flags=integers)


def _check_names(path: Path, names: list[str], lines: NDArray[np.int64]) -> None:
    if len(set(names)) == len(names) and "" not in names:
        return
    first: dict[str, int] = {}
    for name, line in zip(names, lines.tolist(), strict=True):
        if not name:
            raise DatasetError(f"'{path}', line {line} has an empty 'id': give each node a name.")
        if name in first:
            raise DatasetError(
                f"'{path}', line {line} lists the node '{name}' again, first seen on line "
                f"{first[name]}: keep one of the two."
            )
        first[name] = line
