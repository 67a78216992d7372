"""``edges.csv``: ends, weights and features of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.csv_table import CsvTable
from torch_grama.datasets.own_data.edges import complete_edges, direction_note
from torch_grama.datasets.own_data.feature_column import FeatureColumn, join_columns
from torch_grama.datasets.own_data.features import check_features
from torch_grama.datasets.own_data.options import Options


def read_edges(
    table: CsvTable, names: Sequence[str], data: Data, options: Options
) -> tuple[str, ...]:
    r"""Puts the edges into a graph.

    Args:
        table (CsvTable): The file.
        names (sequence of str): The ``id`` of each node.
        data (Data): The graph; it gets ``edge_index``, and ``edge_weight`` and ``edge_attr`` where
            there are such columns.
        options (Options): What the user said.

    Returns:
        What was decided while reading, one sentence each.

    Raises:
        DatasetError: A column is missing, a node is not listed, or a cell cannot be read.
    """
    ends = table.position("source"), table.position("target")
    taken = {"source", "target", *options.ignore}
    columns = {
        position: FeatureColumn(name, table.path)
        for position, name in enumerate(table.columns)
        if name not in taken
    }
    number = {name: position for position, name in enumerate(names)}
    listed = [np.zeros((2, 0), dtype=np.int64)]
    portions = [np.zeros(0, dtype=np.int64)]
    for portion in table.portions():
        found = [_find(number, portion.columns[end], portion.lines, table.path) for end in ends]
        listed.append(np.array(found, dtype=np.int64))
        portions.append(portion.lines)
        for position, column in columns.items():
            column.add(portion.columns[position], portion.lines)
    lines = np.concatenate(portions)
    edges = complete_edges(np.concatenate(listed, axis=1), len(names), options.directed)
    data.edge_index = torch.from_numpy(edges.index)
    notes = [direction_note(f"'{table.path.name}'", edges.num_added, options.directed)]
    rows = torch.from_numpy(edges.rows)
    weights = [column for column in columns.values() if column.name == "weight"]
    features = [column for column in columns.values() if column.name != "weight"]
    if len(lines) and weights:
        data.edge_weight = torch.from_numpy(_weight(table, weights[0], lines))[rows]
    if len(lines) and features:
        values, feature_names, more = join_columns(features)
        attributes = check_features(
            values, feature_names, lambda row: f"'{table.path}', line {lines[row]}", options
        )
        data.edge_attr = attributes[rows]
        notes += more
    return tuple(notes)


def _weight(
    table: CsvTable, column: FeatureColumn, lines: NDArray[np.int64]
) -> NDArray[np.float32]:
    values, names, _ = column.finish()
    if names != ("weight",):
        raise DatasetError(
            f"'{table.path}', line {lines[0]} has words in the column 'weight': write numbers, or "
            f"rename the column."
        )
    return values[:, 0]


def _find(
    number: dict[str, int], cells: Sequence[str], lines: NDArray[np.int64], path: Path
) -> list[int]:
    try:
        return list(map(number.__getitem__, cells))
    except KeyError:
        row = next(row for row, cell in enumerate(cells) if cell not in number)
        raise DatasetError(
            f"'{path}', line {lines[row]} names the node '{cells[row]}', which is not in "
            f"'nodes.csv': add the node, or remove the edge."
        ) from None
