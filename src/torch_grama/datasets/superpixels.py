"""MNIST and CIFAR10 as graphs of superpixels."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.raw_arrays import read_tensors, reading
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

_VERSION = 1


def load_superpixels(entry: Entry, storage: Storage) -> GraphTaskData:
    r"""Loads a superpixel set from the files of PyG's ``GNNBenchmarkDataset``.

    Features are the mean colour followed by the two coordinates; an edge has its stored distance.
    """
    content = storage.prepared(entry, _VERSION, lambda _, paths: _build(paths[0]))
    return entry.task(
        content.graphs,
        content.folds,
        FeatureEncoding("float", content.graphs.columns["x"].values.shape[1]),
        FeatureEncoding("float", content.graphs.columns["edge_attr"].values.shape[1]),
        notes=("Coordinates are appended to the colour, as in GraphGPS.",),
    )


def _build(path: Path) -> CompactFile:
    if path.suffix == ".zip":
        with reading(path, "an archive with one file of tensors"), zipfile.ZipFile(path) as z:
            (member,) = (name for name in z.namelist() if name.endswith(".pt"))
            with z.open(member) as stream:
                content = read_tensors(stream, f"{path}/{member}")
    else:
        content = read_tensors(path, str(path))
    with reading(path, "three lists of graphs with x, pos, edge_index, edge_attr and y"):
        if not isinstance(content, list | tuple):
            raise TypeError(f"a {type(content).__name__}")
        train, val, test = content
        graphs = CompactGraphs.from_data(map(_graph, (*train, *val, *test)))
    return CompactFile(graphs, (consecutive_fold(map(len, content)),))


def _graph(stored: Mapping[str, Tensor]) -> Data:
    x = stored["x"]
    return Data(
        x=torch.cat([x.reshape(len(x), -1), stored["pos"]], dim=1).float(),
        edge_index=stored["edge_index"],
        edge_attr=stored["edge_attr"].reshape(-1, 1).float(),
        y=torch.as_tensor(stored["y"]).reshape(1).long(),
    )
