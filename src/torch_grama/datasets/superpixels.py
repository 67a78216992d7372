"""MNIST and CIFAR10 as graphs of superpixels."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.compact import CompactFile, CompactGraphs
from torch_grama.datasets.entry import ACCURACY, DataFile, Entry, Published, Source
from torch_grama.datasets.raw_arrays import read_tensors, reading
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

_VERSION = 1
_URL = "https://data.pyg.org/datasets/benchmarking-gnns"


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


_OBJECTS = "airplane automobile bird cat deer dog frog horse ship truck"


def _entry(
    title: str, summary: str, classes: Iterable[str], published: Published, disk_bytes: int
) -> Entry:
    folder = f"superpixels/{title}/raw"
    return Entry(
        name=f"{title.lower()}-superpixels",
        family="superpixels",
        summary=summary,
        level="graph",
        kind="classification",
        metric=ACCURACY,
        num_outputs=10,
        loader=load_superpixels,
        published=published,
        sources=(
            Source("tensors", (DataFile(f"{folder}/{title}_v2.pt"),)),
            Source("archive", (DataFile(f"{folder}/{title}_v2.zip", (f"{_URL}/{title}_v2.zip",)),)),
        ),
        disk_bytes=disk_bytes,
        parameter_budget=100_000,
        class_names=tuple(classes),
        origin="https://github.com/graphdeeplearning/benchmarking-gnns",
        licence="MIT (benchmark repository)",
        citation="Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural "
        "Networks, 2020",
    )


def _published(nodes: float, edges: float, features: int, train: int) -> Published:
    return Published(
        num_graphs=train + 15_000,
        mean_nodes=nodes,
        mean_edges=edges,
        num_features=features,
        split=(train, 5_000, 10_000),
        source="Benchmarking Graph Neural Networks; PyG",
    )


_MNIST, _CIFAR10 = (f"{what} in an image of superpixels" for what in ("digit", "object"))
ENTRIES = (
    _entry("MNIST", _MNIST, "0123456789", _published(70.6, 564.5, 3, 55_000), 250_000_000),
    _entry("CIFAR10", _CIFAR10, _OBJECTS.split(), _published(117.6, 941.2, 5, 45_000), 500_000_000),
)
