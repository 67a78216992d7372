"""Graphs as lines of JSON, one graph a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError, Faults
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.graph_parts import (
    CONSTANT_NOTE,
    NODE_BYTES,
    ParsedGraphs,
    check_alike,
    direction_note,
    make_graph,
    split_from_words,
)
from torch_grama.datasets.own_data.labels import read_json_labels
from torch_grama.datasets.own_data.table_files import read_text
from torch_grama.datasets.raw_arrays import check_size, fingerprint

LINE_SUFFIXES = (".jsonl", ".ndjson")
_NUMBERS = {"nodes", "x", "edges", "edge_attr", "edge_weight"}
_KNOWN = {*_NUMBERS, "num_nodes", "split"}
# A list takes twenty times the two letters that write it, which numbers do not.
_MOST_LETTERS, _MOST_LISTS = 2**26, 2**22


class _Line(NamedTuple):
    place: str
    table: dict[str, Any]  # with arrays for lists of numbers, which take a tenth


def read_json_lines(path: Path, options: Options) -> ParsedGraphs:
    r"""Reads many graphs, each with a target of its own.

    A line is an object with ``nodes`` or ``x`` (a list of numbers per node, or one number per node;
    ``num_nodes`` for nodes without features), ``edges`` (pairs of node numbers), optionally
    ``edge_attr`` (a list of numbers per edge) and ``edge_weight`` (one number per edge), ``label``
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

    counts = [line.table.get("num_nodes") for line in lines if not {"x", "nodes"} & {*line.table}]
    check_size(path, sum(NODE_BYTES * count for count in counts if _is_count(count)))
    label_key = _label_key(lines, options)
    labels, faults = None, Faults()
    if options.targets:
        with faults:
            found = [line.table.get(label_key) for line in lines]
            labels = read_json_labels(found, where, options)
    read = []
    for line in lines:
        with faults:
            read.append(_read_graph(line, options))
    faults.check(path)
    graphs, listed = zip(*read, strict=True)
    _widen_empty(graphs)
    check_alike(graphs, where)
    added = sum(graph.num_edges for graph in graphs) - sum(pairs.shape[1] for pairs in listed)
    notes = [direction_note(f"'{path.name}'", added, options.directed)]
    unknown = {key for line in lines for key in line.table} - _KNOWN - {label_key, *options.ignore}
    if unknown:
        notes.append(f"Keys that were not read: {', '.join(sorted(unknown))}.")
    if not {"nodes", "x"} & {*lines[0].table}:
        notes.append(CONSTANT_NOTE)
    words = [line.table.get("split") for line in lines]
    splits = []
    if labels is not None and any(word is not None for word in words):
        source = f"The key 'split' in '{path}'"
        splits.append(split_from_words(words, labels.labelled, where, source))
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
    lines, faults = [], Faults()
    for file in files:
        for number, text in enumerate(read_text(file).split("\n"), start=1):
            if text.strip():
                with faults:
                    lines.append(_parse(f"'{file}', line {number}", text))
    faults.check(path)
    if not lines:
        raise DatasetError(f"'{path}' is empty: write one graph a line.")
    return lines


def _parse(place: str, text: str) -> _Line:
    lists = text.count("[") + text.count("{")
    if len(text) > _MOST_LETTERS or lists > _MOST_LISTS:
        raise DatasetError(
            f"{place} has {len(text):,} letters and {lists:,} lists, more than the "
            f"{_MOST_LETTERS:,} and {_MOST_LISTS:,} of a graph in JSON: write large graphs as .npz "
            f"or .pt."
        )
    try:
        table = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{place} cannot be read ({error}): write one graph as JSON on one line, and check "
            f"that the file is whole."
        ) from error
    if not isinstance(table, dict):
        raise DatasetError(
            f"{place} is a {type(table).__name__}, not a graph: write an object with 'nodes', "
            f"'edges' and 'label' on each line."
        )
    for key in sorted(_NUMBERS.intersection(table)):
        rows = table[key]
        if rows is None:
            continue
        try:
            table[key] = np.array(rows if isinstance(rows, list) else None)
        except (ValueError, OverflowError):
            table[key] = np.array(None)
        if table[key].dtype.kind not in "biuf" or table[key].ndim not in (1, 2):
            key = "nodes" if key == "x" else key
            raise DatasetError(
                f"{place} has '{key}' that are no rows of numbers of one length: write a list of "
                f"lists of numbers."
            )
    return _Line(place, table)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no finite number")


def _label_key(lines: list[_Line], options: Options) -> str:
    if options.label:
        key, *others = options.label
        if others:
            raise DatasetError(
                f"{lines[0].place}: several labels were named for a graph: write them as one "
                f"list, under one key."
            )
        return key
    for line in lines:
        if "label" in line.table and "y" in line.table:
            raise DatasetError(f"{line.place} has both 'label' and 'y': keep one of them.")
    return "label" if any("label" in line.table for line in lines) else "y"


def _read_graph(line: _Line, options: Options) -> tuple[Data, NDArray[np.int64]]:
    """A graph, and its edges as they are listed."""
    table, place = line.table, line.place
    if "nodes" in table and "x" in table:
        raise DatasetError(f"{place} has both 'nodes' and 'x': keep one of them.")
    x = table.get("nodes" if "nodes" in table else "x")
    count = table.get("num_nodes") if x is None else len(x)
    if x is not None and not x.size:
        raise DatasetError(f"{place} has no nodes: every graph needs at least one.")
    if not _is_count(count):
        raise DatasetError(
            f"{place} has neither 'nodes' nor a sensible 'num_nodes': list the features of each "
            f"node, or say how many there are."
        )
    if table.get("edges") is None:
        raise DatasetError(f"{place} has no 'edges': list them as pairs, [] if there is none.")
    values = {key: table.get(key) for key in ("edge_attr", "edge_weight")}
    return make_graph(place, x, count, (table["edges"], "edge {}"), options, **values)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value < 2**24


def _widen_empty(graphs: tuple[Data, ...]) -> None:
    """A graph without edges cannot show how many features an edge has: it follows the others."""
    for key in ("edge_attr", "edge_weight"):
        others = [graph for graph in graphs if graph.num_edges and graph.get(key) is not None]
        for graph in graphs:
            if not graph.num_edges:
                graph[key] = others[0][key][:0] if others else None
