"""Graphs written as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.atomic_file import write_atomically


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
    all graphs; other targets as numbers.

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
    check_free(file, overwrite)
    graphs = list(graphs)
    targets = [graph.y if isinstance(graph.y, Tensor) else None for graph in graphs]
    flags = all(y is None or _is_missing(y) or _is_binary(y) for y in targets)
    lines = []
    for graph, y in zip(graphs, targets, strict=True):
        table: dict[str, object] = {}
        if graph.x is None:
            table["num_nodes"] = graph.num_nodes
        else:
            table["nodes"] = finite(graph.x).tolist()
        table["edges"] = [list(pair) for pair in zip(*edge_lists(graph), strict=True)]
        for key in ("edge_attr", "edge_weight"):
            if graph.get(key) is not None:
                table[key] = finite(graph[key]).tolist()
        if y is not None and not _is_missing(y):
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
    if values.numel() > 1 and flags:
        return values.long().tolist()
    numbers = finite(values).tolist()
    return numbers if len(numbers) > 1 else numbers[0]


def _is_missing(y: Tensor) -> bool:
    return bool(torch.isnan(y).any()) if y.is_floating_point() else bool((y < 0).any())


def _is_binary(y: Tensor) -> bool:
    return bool(torch.logical_or(y == 0, y == 1).all())


def finite(values: Tensor) -> Tensor:
    r"""Returns the values on the CPU, or refuses what no text can hold."""
    values = values.detach().cpu()
    if not bool(torch.isfinite(values).all()):
        raise ValueError("Expected finite values to write (got NaN or infinity)")
    return values


def edge_lists(data: Data) -> list[list[int]]:
    r"""Returns sources and targets."""
    if data.edge_index is None:
        return [[], []]
    pairs: list[list[int]] = data.edge_index.tolist()
    return pairs


def check_free(path: Path, overwrite: bool) -> None:
    r"""Refuses to replace a file unless that was asked for."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"'{path}' is there already: choose another place, or say overwrite.")
