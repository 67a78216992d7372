"""A graph written as ``nodes.csv`` and ``edges.csv``."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.atomic_file import write_atomically
from torch_grama.datasets.own_data.write_json import check_free, edge_lists, finite

_PARTS = ("train", "val", "test")


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
    masks = [data.get(f"{part}_mask") for part in _PARTS]
    if all(mask is not None for mask in masks):
        words = np.full(count, "", dtype="<U5")
        for part, mask in zip(_PARTS, masks, strict=True):
            words[np.asarray(mask)] = part
        nodes["split"] = words.tolist()
    source, target = edge_lists(data)
    edges = {
        "source": [names[node] for node in source],
        "target": [names[node] for node in target],
    }
    if data.edge_weight is not None:
        edges["weight"] = _texts(data.edge_weight)[:, 0].tolist()
    if data.edge_attr is not None:
        edges |= _columns(data.edge_attr, (), "e")
    tables = {"nodes.csv": nodes, "edges.csv": edges}
    for name in tables:
        check_free(folder / name, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
        write_atomically(folder / name, text.getvalue().encode())
    return folder


def _label_columns(y: Tensor, class_names: Sequence[str]) -> dict[str, list[str]]:
    if not y.is_floating_point() and (y.dim() == 1 or y.size(1) == 1):
        words = {-1: ""} | dict(enumerate(class_names))
        return {"label": [words.get(number, str(number)) for number in y.flatten().tolist()]}
    table = y if y.dim() == 2 else y[:, None]
    missing = torch.isnan(table).any(dim=1)
    flags = table.size(1) > 1 and bool(((table == 0) | (table == 1))[~missing].all())
    values = torch.where(missing[:, None], 0, table)
    texts = _texts(values.long() if flags else values)
    texts[missing.numpy()] = ""
    names = ["label"] if table.size(1) == 1 else [f"y{column}" for column in range(table.size(1))]
    return {name: texts[:, column].tolist() for column, name in enumerate(names)}


def _columns(values: Tensor, given: Sequence[str], letter: str) -> dict[str, list[str]]:
    texts = _texts(values)
    names = list(given) or [f"{letter}{column}" for column in range(texts.shape[1])]
    if len(names) != texts.shape[1]:
        raise ValueError(f"Expected {texts.shape[1]} feature names (got {len(names)})")
    return {name: texts[:, column].tolist() for column, name in enumerate(names)}


def _texts(values: Tensor) -> NDArray[np.str_]:
    """The shortest text that reads back as the same number."""
    array = finite(values).numpy()
    return (array if array.ndim == 2 else array[:, None]).astype(str)
