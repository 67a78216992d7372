"""Graphs as lines of JSON, one graph a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.csv_table import read_text
from torch_grama.datasets.own_data.graph_parts import (
    check_alike,
    check_edges,
    check_features,
    complete_edges,
    direction_note,
    parts_from_words,
    split_from_parts,
)
from torch_grama.datasets.own_data.labels import no_labels, read_json_labels
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.parsed import ParsedGraphs
from torch_grama.datasets.raw_arrays import fingerprint

LINE_SUFFIXES = (".jsonl", ".ndjson")
_KNOWN = {"nodes", "x", "num_nodes", "edges", "edge_attr", "edge_weight", "split"}


@dataclass(frozen=True)
class _Line:
    path: Path
    number: int
    table: dict[str, object]

    @property
    def place(self) -> str:
        return f"'{self.path}', line {self.number}"


def read_json_lines(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads many graphs, each with a target of its own.

    A line is an object with ``nodes`` or ``x`` (one list of numbers a node, or one number a node;
    ``num_nodes`` for nodes without features), ``edges`` (pairs of node numbers), optionally
    ``edge_attr`` (one list of numbers an edge) and ``edge_weight`` (one number an edge), ``label``
    or ``y`` (a number, a word, a list of numbers or a list of words; null or nothing for a graph
    without label) and optionally ``split`` (train, val or test).
    """
    if options.level == "node":
        raise DatasetError(
            f"'{path}' holds graphs with a label each: ask for level 'graph', or write one graph "
            f"as nodes.csv and edges.csv."
        )
    lines = _read_lines(path)

    def where(graph: int) -> str:
        return lines[graph].place

    label_key = _label_key(lines, options)
    if options.targets:
        labels = read_json_labels([line.table.get(label_key) for line in lines], where, options)
    else:
        labels = no_labels(len(lines), options)
    graphs: list[Data] = []
    listed: list[NDArray[np.int64]] = []
    for line in lines:
        data, pairs = _read_graph(line, options)
        graphs.append(data)
        listed.append(pairs)
    _widen_empty(graphs)
    check_alike(graphs, where)
    added = sum(graph.num_edges for graph in graphs) - sum(pairs.shape[1] for pairs in listed)
    notes = [direction_note(f"'{path.name}'", added, options.directed)]
    unknown = {key for line in lines for key in line.table} - _KNOWN - {label_key, *options.ignore}
    if unknown:
        notes.append(f"Keys that were not read: {', '.join(sorted(unknown))}.")
    if "nodes" not in lines[0].table and "x" not in lines[0].table:
        notes.append("The nodes have no features: each got the constant 1.")
    splits = []
    if options.targets and any(line.table.get("split") is not None for line in lines):
        parts = parts_from_words([_split_word(line) for line in lines], where)
        splits.append(split_from_parts(parts, labels, where, f"The key 'split' in '{path}'"))
    return ParsedGraphs(
        path=path,
        graphs=graphs,
        level="graph",
        labels=labels,
        splits=splits,
        identity=fingerprint(["graphs", np.array([graph.num_nodes for graph in graphs]), *listed]),
        target=(label_key,),
        notes=tuple(notes),
    )


def _read_lines(path: Path) -> list[_Line]:
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in LINE_SUFFIXES)
    lines = []
    for file in files:
        for number, text in enumerate(read_text(file).split("\n"), start=1):
            if text.strip():
                lines.append(_Line(file, number, _parse(file, number, text)))
    if not lines:
        raise DatasetError(f"'{path}' is empty: write one graph a line.")
    return lines


def _parse(path: Path, number: int, text: str) -> dict[str, object]:
    try:
        table = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"'{path}', line {number} cannot be read ({error}): write one graph as JSON on one "
            f"line, and check that the file is whole."
        ) from error
    if not isinstance(table, dict):
        raise DatasetError(
            f"'{path}', line {number} is a {type(table).__name__}, not a graph: write an object "
            f"with 'nodes', 'edges' and 'label' on each line."
        )
    return table


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no finite number")


def _label_key(lines: Sequence[_Line], options: Options) -> str:
    if len(options.label) > 1:
        raise DatasetError(
            f"{lines[0].place}: several labels were named for a graph: write them as one list, "
            f"under one key."
        )
    if options.label:
        return options.label[0]
    for line in lines:
        if "label" in line.table and "y" in line.table:
            raise DatasetError(f"{line.place} has both 'label' and 'y': keep one of them.")
    return "label" if any("label" in line.table for line in lines) else "y"


def _read_graph(line: _Line, options: Options) -> tuple[Data, NDArray[np.int64]]:
    table = line.table
    if "nodes" in table and "x" in table:
        raise DatasetError(f"{line.place} has both 'nodes' and 'x': keep one of them.")
    rows = table.get("nodes", table.get("x"))
    if rows is None:
        count = table.get("num_nodes")
        if type(count) is not int or not 0 < count < 2**24:
            raise DatasetError(
                f"{line.place} has neither 'nodes' nor a sensible 'num_nodes': list the features "
                f"of each node, or say how many there are."
            )
        x = torch.ones(count, 1)
    else:
        values = _numbers(rows, line, "nodes")
        x = check_features(values, (), lambda row: f"{line.place}, node {row}", options)
        count = len(x)
    if not count or not x.size(1):
        raise DatasetError(f"{line.place} has no nodes: every graph needs at least one.")
    listed = _edges(line, count)
    edges = complete_edges(listed, count, options.directed)
    chosen = torch.from_numpy(edges.rows)
    data = Data(x=x, edge_index=torch.from_numpy(edges.index))
    for key in ("edge_attr", "edge_weight"):
        if table.get(key) is None:
            continue
        values = _numbers(table[key], line, key)
        if len(values) != listed.shape[1] or (key == "edge_weight" and values.ndim != 1):
            raise DatasetError(
                f"{line.place} has {len(values)} rows of '{key}' for {listed.shape[1]} edges: "
                f"write one {'number' if key == 'edge_weight' else 'list of numbers'} an edge."
            )
        plain = options if key == "edge_attr" else Options()
        found = check_features(values, (), lambda row: f"{line.place}, edge {row}", plain)[chosen]
        data[key] = found if key == "edge_attr" else found[:, 0]
    return data, listed


def _widen_empty(graphs: list[Data]) -> None:
    """A graph without edges cannot show how many features an edge has: it follows the others."""
    for key in ("edge_attr", "edge_weight"):
        others = [graph for graph in graphs if graph.num_edges and graph.get(key) is not None]
        for graph in graphs:
            if not graph.num_edges and others:
                graph[key] = others[0][key][:0]
            elif not graph.num_edges and graph.get(key) is not None:
                del graph[key]


def _edges(line: _Line, count: int) -> NDArray[np.int64]:
    if "edges" not in line.table:
        raise DatasetError(f"{line.place} has no 'edges': list them as pairs, [] if there is none.")
    pairs = _numbers(line.table["edges"], line, "edges")
    return check_edges(pairs, count, lambda edge: f"{line.place}, edge {edge}", line.place)


def _numbers(rows: object, line: _Line, key: str) -> NDArray[np.generic]:
    try:
        values = np.array(rows if isinstance(rows, list) else None)
    except (ValueError, OverflowError):
        values = np.array(None)
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
        raise DatasetError(
            f"{line.place} has '{key}' that are no rows of numbers of one length: write a list of "
            f"lists of numbers."
        )
    return values


def _split_word(line: _Line) -> str:
    word = line.table.get("split")
    if word is not None and not isinstance(word, str):
        raise DatasetError(f"{line.place} has a 'split' that is no word: write train, val or test.")
    return word or ""
