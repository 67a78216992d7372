"""Graphs written as ``nodes.csv`` and ``edges.csv``, or as lines of JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.task_data import is_known
from torch_grama.runs.atomic_file import write_atomically


def write_csv_folder(
    data: Data,
    path: str | Path,
    *,
    node_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    class_names: Sequence[str] = (),
    overwrite: bool = False,
) -> Path:
    r"""Writes a graph as ``nodes.csv`` and ``edges.csv``.

    Written are ``x``, ``y``, ``edge_index``, ``edge_attr``, ``edge_weight`` and the masks
    ``train_mask``, ``val_mask`` and ``test_mask`` (``[N]``). Every entry of ``edge_index`` is a
    row, so an undirected graph is read back as it is and a directed one with ``directed=True``.
    A ``y`` with several columns is written as ``y0``, ``y1``, ..., to be named with ``label``.

    Args:
        data (Data): The graph.
        path (str or Path): The folder; created if need be.
        node_names (sequence of str, optional): The ids of the nodes. (default: their numbers)
        feature_names (sequence of str, optional): Names of the columns of ``x``. (default:
            ``x0``, ``x1``, ...)
        class_names (sequence of str, optional): Names of the classes. (default: their numbers)
        overwrite (bool, optional): Whether to replace files that are there. (default:
            :obj:`False`)

    Returns:
        The folder.

    Raises:
        FileExistsError: A file is there already.
        ValueError: A value is not finite, or names do not fit.
    """
    folder = Path(path)
    count = data.num_nodes or 0
    names = list(node_names) or [str(node) for node in range(count)]
    if len(names) != count:
        raise ValueError(f"Expected {count} node names (got {len(names)})")
    nodes = {"id": names}
    if data.x is not None:
        nodes |= _columns(data.x, feature_names, "x")
    if isinstance(data.y, Tensor):
        nodes |= _label_columns(data.y, class_names)
    if all(data.get(f"{part}_mask") is not None for part in PARTS):
        words = np.full(count, "", dtype="<U5")
        for part in PARTS:
            words[np.asarray(data[f"{part}_mask"])] = part
        nodes["split"] = words.tolist()
    source, target = [[], []] if data.edge_index is None else data.edge_index.tolist()
    edges = {"source": [names[node] for node in source], "target": [names[node] for node in target]}
    if data.edge_weight is not None:
        edges |= _columns(data.edge_weight, ["weight"], "e")
    if data.edge_attr is not None:
        edges |= _columns(data.edge_attr, (), "e")
    tables = {"nodes.csv": nodes, "edges.csv": edges}
    for name in tables:
        _check_free(folder / name, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
        write_atomically(folder / name, text.getvalue().encode())
    return folder


def _label_columns(y: Tensor, class_names: Sequence[str]) -> dict[str, list[str]]:
    table = y if y.dim() == 2 else y[:, None]
    if not y.is_floating_point() and table.size(1) == 1:
        words = {-1: ""} | dict(enumerate(class_names))
        return {"label": [words.get(number, str(number)) for number in y.flatten().tolist()]}
    missing = torch.isnan(table)
    flags = table.size(1) > 1 and bool(((table == 0) | (table == 1) | missing).all())
    values = torch.where(missing, 0, table)
    found = _columns(values.long() if flags else values, ["label"][: table.size(1) == 1], "y")
    gaps = zip(found.items(), missing.T.tolist(), strict=True)
    return {
        name: ["" if gap else text for text, gap in zip(texts, row, strict=True)]
        for (name, texts), row in gaps
    }


def _columns(values: Tensor, given: Sequence[str], letter: str) -> dict[str, list[str]]:
    """The shortest texts that read back as the same numbers."""
    array = _finite(values).numpy()
    texts = (array if array.ndim == 2 else array[:, None]).astype(str)
    names = list(given) or [f"{letter}{column}" for column in range(texts.shape[1])]
    if len(names) != texts.shape[1]:
        raise ValueError(f"Expected {texts.shape[1]} feature names (got {len(names)})")
    return dict(zip(names, texts.T.tolist(), strict=True))


def write_json_lines(
    graphs: Iterable[Data],
    path: str | Path,
    *,
    class_names: Sequence[str] = (),
    overwrite: bool = False,
) -> Path:
    r"""Writes graphs as lines of JSON.

    Written are ``x``, ``edge_index``, ``edge_attr``, ``edge_weight``, ``y`` and ``split``. Integer
    targets are written as classes; targets of several zeros and ones as flags if they are so in
    all graphs; other targets as numbers; one of several that is not known as null.

    Args:
        graphs (iterable of Data): The graphs.
        path (str or Path): The file.
        class_names (sequence of str, optional): Names of the classes. (default: their numbers)
        overwrite (bool, optional): Whether to replace a file that is there. (default:
            :obj:`False`)

    Returns:
        The file.

    Raises:
        FileExistsError: The file is there already.
        ValueError: A value is not finite.
    """
    file = Path(path)
    _check_free(file, overwrite)
    graphs = list(graphs)
    targets = [graph.y if isinstance(graph.y, Tensor) else None for graph in graphs]
    flags = all(y is None or bool(((y == 0) | (y == 1) | y.isnan()).all()) for y in targets)
    lines = []
    for graph, y in zip(graphs, targets, strict=True):
        table: dict[str, object] = {"num_nodes": graph.num_nodes}
        if graph.x is not None:
            table = {"nodes": _finite(graph.x).tolist()}
        table["edges"] = [] if graph.edge_index is None else graph.edge_index.t().tolist()
        for key in ("edge_attr", "edge_weight"):
            if graph.get(key) is not None:
                table[key] = _finite(graph[key]).tolist()
        if y is not None and bool(is_known(y).any()):
            table["label"] = _json_label(y, flags, class_names)
        if graph.get("split") is not None:
            table["split"] = graph.split
        lines.append(json.dumps(table, separators=(",", ":"), allow_nan=False) + "\n")
    write_atomically(file, "".join(lines).encode())
    return file


def _json_label(y: Tensor, flags: bool, class_names: Sequence[str]) -> object:
    values = y.flatten()
    if not values.is_floating_point() and values.numel() == 1:
        number = int(values[0])
        return class_names[number] if class_names else number
    _finite(values[~values.isnan()])
    if values.numel() == 1:
        return values.item()
    kind = int if flags else float
    return [None if number != number else kind(number) for number in values.tolist()]


def _finite(values: Tensor) -> Tensor:
    """The values on the CPU; refuses what no text can hold."""
    values = values.detach().cpu()
    if not bool(torch.isfinite(values).all()):
        raise ValueError("Expected finite values to write (got NaN or infinity)")
    return values


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise FileExistsError(f"'{path}' is there already: choose another place, or say overwrite.")
