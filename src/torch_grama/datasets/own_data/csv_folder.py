"""A folder with ``nodes.csv`` and ``edges.csv``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.csv_table import CsvTable, FeatureColumn, join_columns
from torch_grama.datasets.own_data.graph_parts import (
    check_features,
    check_node_level,
    complete_edges,
    direction_note,
    parts_from_words,
    split_from_parts,
)
from torch_grama.datasets.own_data.labels import (
    Labels,
    Where,
    labels_from_numbers,
    labels_from_text,
    no_labels,
    parse_number,
)
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.raw_arrays import fingerprint


def read_csv_folder(folder: Path, options: Options) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target.

    ``nodes.csv`` has a column ``id`` (any text, each once), a label column (``label`` or ``y``, or
    the one or more named by the option ``label``), optionally ``split`` (train, val, test or
    empty), and features. ``edges.csv`` has ``source`` and ``target`` (ids of nodes), optionally
    ``weight``, and features. An empty label is a node without label; it is in no split.
    """
    for name in ("nodes.csv", "edges.csv"):
        if not (folder / name).is_file():
            raise DatasetError(
                f"'{folder}' has no file '{name}': put it beside the other one, with the columns "
                f"{'id and label' if name == 'nodes.csv' else 'source and target'}."
            )
    check_node_level(folder, options)
    node_table, edge_table = CsvTable(folder / "nodes.csv"), CsvTable(folder / "edges.csv")
    for name in options.ignore:
        if name not in edge_table.columns:
            node_table.position(name)
    nodes = read_nodes(node_table, options)
    data = Data(x=check_features(nodes.x, nodes.feature_names, nodes.where, options))
    notes = (*nodes.notes, *read_edges(edge_table, nodes.names, data, options))
    splits = []
    if nodes.parts is not None:
        parts = parts_from_words(nodes.parts, nodes.where)
        source = f"The column 'split' of '{node_table.path}'"
        splits.append(split_from_parts(parts, nodes.labels, nodes.where, source))
    return ParsedGraphs(
        path=folder,
        graphs=[data],
        level="node",
        labels=nodes.labels,
        splits=splits,
        identity=fingerprint(["nodes", *nodes.names]),
        target=nodes.target,
        notes=notes,
        feature_names=nodes.feature_names,
        node_names=tuple(nodes.names),
    )


@dataclass(frozen=True)
class NodeTable:
    r"""The nodes of a graph, one a line."""

    names: Sequence[str]
    where: Where
    target: tuple[str, ...]
    labels: Labels
    parts: Sequence[str] | None
    x: NDArray[np.float32]
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]


def read_nodes(table: CsvTable, options: Options) -> NodeTable:
    r"""Reads the nodes of a graph."""
    label_names = _label_columns(table, options)
    if not options.targets:  # a label column is no feature, whether there is one or not
        label_names = tuple(name for name in label_names if name in table.columns)
    wanted = ["id", *label_names, *(["split"] if "split" in table.columns else [])]
    plain, lines, columns = table.read(wanted, options.ignore, lambda cells, _: cells)
    if not len(lines):
        raise DatasetError(f"'{table.path}' has no rows below line 1: list at least one node.")
    names = plain["id"]
    _check_names(table.path, names, lines)

    def where(row: int) -> str:
        return f"'{table.path}', line {lines[row]}"

    if options.targets:
        labels = _read_labels([plain[name] for name in label_names], where, options)
    else:
        labels = no_labels(len(names), options)
    if columns:
        x, feature_names, notes = join_columns(columns)
    else:
        x, feature_names = np.ones((len(lines), 1), dtype=np.float32), ("constant",)
        notes = ("The nodes have no features: each got the constant 1.",)
    parts = plain.get("split") if options.targets else None
    return NodeTable(names, where, label_names, labels, parts, x, feature_names, notes)


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


def read_edges(
    table: CsvTable, names: Sequence[str], data: Data, options: Options
) -> tuple[str, ...]:
    r"""Puts the edges into a graph."""
    number = {name: position for position, name in enumerate(names)}
    ends, lines, columns = table.read(
        ("source", "target"), options.ignore, lambda cells, at: _find(number, cells, at, table.path)
    )
    listed = np.array([ends["source"], ends["target"]], dtype=np.int64)
    edges = complete_edges(listed, len(names), options.directed)
    data.edge_index = torch.from_numpy(edges.index)
    notes = [direction_note(f"'{table.path.name}'", edges.num_added, options.directed)]
    rows = torch.from_numpy(edges.rows)
    weights = [column for column in columns if column.name == "weight"]
    features = [column for column in columns if column.name != "weight"]
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
