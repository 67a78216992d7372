"""City-Networks and GraphLand: single large graphs, read by the classes of PyG."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset, extract_zip

from torch_grama.datasets.entry import (
    Entry,
)
from torch_grama.datasets.errors import DatasetMissingError
from torch_grama.datasets.raw_arrays import reading
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData


def load_city(entry: Entry, storage: Storage, *, augmented: bool = True) -> GraphTaskData:
    r"""Loads a road network; ``augmented`` adds what is known of the roads to the junctions."""
    name = entry.name.removeprefix("city-")
    folder = storage.root / "city-networks" / ("augmented" if augmented else "plain")
    graph = _read("CityNetwork", entry, storage, folder, name, augmented=augmented)
    return _task(entry, graph, graph["y"].reshape(-1).long())


def load_land(entry: Entry, storage: Storage, *, split: str = "RL") -> GraphTaskData:
    r"""Loads a graph of GraphLand with one of its splits.

    ``RL`` is random with 10 % for training, ``RH`` random with 50 %, ``TH`` by time with 50 %.
    Features and targets are prepared as PyG does by default: the targets of a regression are
    standardised by those of training, so that :math:`R^2` is about one less the squared error.
    """
    name = entry.sources[0].files[0].name.removesuffix(".zip")
    graph = _read("GraphLandDataset", entry, storage, storage.root / "graphland", name, split=split)
    y = graph["y"].reshape(-1)
    if entry.kind == "regression":
        return _task(entry, graph, y[:, None])
    # a node without a label is in no part, but its class must be a whole number all the same
    return _task(entry, graph, torch.where(y.isfinite(), y, 0.0).long())


def _read(
    reader: str, entry: Entry, storage: Storage, root: Path, name: str, **arguments: object
) -> Data:
    # Not above: it loads every data set of PyG.
    found = getattr(importlib.import_module("torch_geometric.datasets"), reader, None)
    if found is None:
        raise DatasetMissingError(
            f"'{entry.name}' is read by torch_geometric.datasets.{reader}, which the installed "
            "torch_geometric lacks: run `pip install 'torch_geometric>=2.8'`."
        )

    def download(dataset: InMemoryDataset) -> None:
        # by our own storage, which finds, checks and continues files
        archive = storage.get(entry.sources[0].files[0], entry.name)
        setattr(dataset, "download_path", str(archive))  # noqa: B010, CityNetwork reads it
        if archive.suffix == ".zip":
            extract_zip(str(archive), dataset.raw_dir)

    if not (root / name / "processed").is_dir():
        shutil.rmtree(root / name, ignore_errors=True)  # what an interrupted call has left
    try:
        with reading(root / name, f"the files of '{entry.name}' as {reader} reads them"):
            dataset = type(reader, (found,), {"download": download})(str(root), name, **arguments)
    except ImportError as error:
        raise DatasetMissingError(
            f"Reading '{entry.name}' takes {error.name}, which cannot be imported: run "
            f"`pip install {(error.name or '').replace('sklearn', 'scikit-learn')}`."
        ) from error
    graph: Data = dataset[0]
    return graph


def _task(entry: Entry, graph: Data, y: Tensor) -> GraphTaskData:
    x = graph["x"].float()
    if entry.kind == "classification":
        entry = replace(entry, num_outputs=int(y.max()) + 1)
    fold = Fold(*(graph[f"{part}_mask"].bool() for part in PARTS))
    kept = Data(x=x, edge_index=graph["edge_index"], y=y)
    return entry.task([kept], [fold], FeatureEncoding("float", x.size(1)))
