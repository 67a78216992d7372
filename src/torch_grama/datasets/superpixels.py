"""MNIST and CIFAR10 as graphs of superpixels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
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
    pieces: dict[str, list[Tensor]] = {name: [] for name in ("x", "edge_index", "edge_attr", "y")}
    with reading(path, "three lists of graphs with x, pos, edge_index, edge_attr and y"):
        if not isinstance(content, list | tuple):
            raise TypeError(f"a {type(content).__name__}")
        train, val, test = content
        for graphs in (train, val, test):
            for graph in graphs:
                x, pos = graph["x"], graph["pos"]
                pieces["x"].append(torch.cat([x.reshape(len(x), -1), pos], dim=1).float())
                pieces["edge_index"].append(graph["edge_index"])
                pieces["edge_attr"].append(graph["edge_attr"].reshape(-1, 1).float())
                pieces["y"].append(torch.as_tensor(graph["y"]).reshape(1).long())
        packed = CompactGraphs(
            np.array([len(rows) for rows in pieces["x"]]),
            np.array([pairs.size(1) for pairs in pieces["edge_index"]]),
            torch.cat(pieces["edge_index"], dim=1).numpy(),
            {
                "x": column("node", torch.cat(pieces["x"])),
                "edge_attr": column("edge", torch.cat(pieces["edge_attr"])),
                "y": column("graph", torch.cat(pieces["y"])),
            },
        )
    return CompactFile(packed, (consecutive_fold(map(len, content)),))


def _entry(
    title: str,
    summary: str,
    nodes: float,
    edges: float,
    features: int,
    split: tuple[int, int, int],
    class_names: tuple[str, ...],
    disk_bytes: int,
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
        published=Published(
            num_graphs=sum(split),
            mean_nodes=nodes,
            mean_edges=edges,
            num_features=features,
            split=split,
            source="Benchmarking Graph Neural Networks; PyG",
        ),
        sources=(
            Source("tensors", (DataFile(f"{folder}/{title}_v2.pt"),)),
            Source("archive", (DataFile(f"{folder}/{title}_v2.zip", (f"{_URL}/{title}_v2.zip",)),)),
        ),
        disk_bytes=disk_bytes,
        parameter_budget=100_000,
        class_names=class_names,
        origin="https://github.com/graphdeeplearning/benchmarking-gnns",
        licence="MIT (benchmark repository)",
        citation="Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural "
        "Networks, 2020",
    )


ENTRIES = (
    _entry(
        "MNIST",
        "digit in an image of superpixels",
        70.6,
        564.5,
        3,
        (55_000, 5_000, 10_000),
        tuple("0123456789"),
        250_000_000,
    ),
    _entry(
        "CIFAR10",
        "object in an image of superpixels",
        117.6,
        941.2,
        5,
        (45_000, 5_000, 10_000),
        (
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        500_000_000,
    ),
)
