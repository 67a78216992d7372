"""A folder with ``nodes.csv`` and ``edges.csv``."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.csv_edges import read_edges
from torch_grama.datasets.own_data.csv_nodes import read_nodes
from torch_grama.datasets.own_data.csv_table import CsvTable
from torch_grama.datasets.own_data.features import check_features
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.own_data.stated_splits import parts_from_words, split_from_parts
from torch_grama.datasets.split_store import fingerprint


def read_csv_folder(folder: Path, options: Options) -> ParsedGraphs:
    r"""Reads one graph whose nodes carry the target.

    ``nodes.csv`` has a column ``id`` (any text, each once), a label column (``label`` or ``y``, or
    the one or more named by the option ``label``), optionally ``split`` (train, val, test or
    empty), and features. ``edges.csv`` has ``source`` and ``target`` (ids of nodes), optionally
    ``weight``, and features. An empty label is a node without label; it is in no split.

    Args:
        folder (Path): The folder.
        options (Options): What the user said.

    Returns:
        The graph.

    Raises:
        DatasetError: A file is missing or broken; file, line and remedy are named.
    """
    for name in ("nodes.csv", "edges.csv"):
        if not (folder / name).is_file():
            raise DatasetError(
                f"'{folder}' has no file '{name}': put it beside the other one, with the columns "
                f"{'id and label' if name == 'nodes.csv' else 'source and target'}."
            )
    if options.level == "graph":
        raise DatasetError(
            f"'{folder}' holds one graph whose nodes carry the labels: ask for level 'node', or "
            f"write many graphs as JSON lines."
        )
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
        splits_path=folder / "splits.json",
        identity=fingerprint(["nodes", *nodes.names]),
        target=nodes.target,
        notes=notes,
        feature_names=nodes.feature_names,
        node_names=tuple(nodes.names),
    )
