"""Tasks on one published graph: citations, heterophilous graphs, cities, GraphLand, forecasts."""

from __future__ import annotations

import importlib
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset, extract_zip
from torch_geometric.io.planetoid import edge_index_from_dict
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import to_undirected

from torch_grama.datasets.entry import Entry
from torch_grama.datasets.errors import DatasetError, DatasetMissingError
from torch_grama.datasets.raw_arrays import Array, CsrMatrix, load_pickle, read_npz, reading
from torch_grama.datasets.splits import PARTS, consecutive_fold, mask_folds
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

_PICKLES = ("x", "tx", "allx", "y", "ty", "ally", "graph")
_PARTS = ("train_mask", "val_mask", "test_mask")
_NUM_SPLITS = 10
_LAGS = {"chickenpox": 4, "pedalme": 4, "wikimath": 8}
_KEYS = {
    "chickenpox": ("edges", "FX"),
    "pedalme": ("edges", "weights", "X"),
    "wikimath": ("edges", "weights", "time_periods"),
}


def load_citation(
    entry: Entry,
    storage: Storage,
    *,
    split: Literal["geom-gcn", "public"] = "geom-gcn",
    normalize: bool = True,
) -> GraphTaskData:
    r"""Loads a citation graph.

    Features are divided by their row's sum, as in Geom-GCN, unless ``normalize`` is
    :obj:`False`. The split files are named 0.6/0.2 and hold 48 / 32 / 20 %; those of Cora leave
    223 nodes in no part. ``split="public"`` gives the split of Planetoid.
    """
    _, paths = storage.obtain(entry)
    pickles = dict(zip((*_PICKLES, "test.index"), paths, strict=False))
    x, edge_index, y, public = _read_planetoid(pickles, entry.name)
    graph = Data(x=x, edge_index=edge_index, y=y)
    if normalize:
        graph = NormalizeFeatures()(graph)
    num_nodes = x.size(0)
    if split == "public":
        folds = [public]
        notes: tuple[str, ...] = ()
    else:
        splits = [read_npz(path, _PARTS) for path in paths[-_NUM_SPLITS:]]
        where = str(paths[-_NUM_SPLITS])
        with reading(where, f"masks of {num_nodes} nodes"):
            masks = [np.stack([arrays[part] for arrays in splits]) for part in _PARTS]
        folds = mask_folds(masks, num_nodes, where)
        notes = ("The split files named 0.6/0.2 hold 48 / 32 / 20 %.",)
        if entry.name == "cora":
            notes += ("223 nodes are in no part of any split.",)
    return entry.task([graph], folds, FeatureEncoding("float", x.size(1)), notes=notes)


def _read_planetoid(paths: dict[str, Path], name: str) -> tuple[Tensor, Tensor, Tensor, Fold]:
    """Joins the eight files: known nodes first, test nodes at the places the index file names."""
    items = {word: load_pickle(paths[word]) for word in _PICKLES}
    with reading(paths["graph"].parent, f"a folder with the Planetoid files of {name}"):
        dense = {word: _dense(items[word]) for word in _PICKLES[:-1]}
        index = np.array([int(line) for line in paths["test.index"].read_text().split()])
        known = len(dense["allx"])
        # CiteSeer's index skips nodes without edges: they get zero features, and class 0.
        total = int(index.max()) + 1
        if index.min() < known or len(index) != len(dense["tx"]) or len(index) != len(dense["ty"]):
            raise ValueError(f"a test index from {index.min()} for {known} known nodes")
        x = np.zeros((total, dense["allx"].shape[1]), dtype=np.float32)
        y = np.zeros((total, dense["ally"].shape[1]), dtype=np.float32)
        x[:known], y[:known] = dense["allx"], dense["ally"]
        x[index], y[index] = dense["tx"], dense["ty"]
        links = items["graph"]
        if not isinstance(links, dict):
            raise TypeError(f"a {type(links).__name__} for the graph")
        edge_index = edge_index_from_dict(links, num_nodes=total)
        if int(edge_index.max()) >= total or int(edge_index.min()) < 0:
            raise ValueError(f"an edge to node {int(edge_index.max())} of {total}")
        masks = torch.zeros(3, total, dtype=torch.bool)
        labelled = len(dense["y"])
        masks[0, :labelled] = masks[1, labelled : labelled + 500] = True
        masks[2, torch.from_numpy(index)] = True
        fold = Fold(*masks)
        return torch.from_numpy(x), edge_index, torch.from_numpy(y.argmax(axis=1)), fold


def _dense(item: object) -> np.ndarray:
    if isinstance(item, CsrMatrix):
        return np.asarray(item.toarray())
    if isinstance(item, np.ndarray) and item.ndim == 2:
        return item
    raise TypeError(f"a {type(item).__name__} for a matrix")


def load_heterophilous(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads one of the five graphs; an edge is listed once and taken in both directions."""
    _, (path,) = storage.obtain(entry)
    masks = [f"{part}_masks" for part in PARTS]
    arrays = read_npz(path, ("node_features", "node_labels", "edges", *masks))
    with reading(path, "an .npz file of the heterophilous benchmark"):
        x = torch.from_numpy(arrays["node_features"]).float()
        y = torch.from_numpy(arrays["node_labels"]).long()
        edges = torch.from_numpy(arrays["edges"]).long()
        if x.dim() != 2 or y.shape != (len(x),) or edges.dim() != 2 or edges.size(1) != 2:
            shapes = (tuple(array.shape) for array in (x, y, edges))
            raise ValueError("features of shape {}, labels of {}, edges of {}".format(*shapes))
        if not 0 <= int(edges.min()) <= int(edges.max()) < len(x):
            raise ValueError(f"an edge to node {int(edges.max())} of {len(x)}")
        folds = mask_folds([arrays[name] for name in masks], len(x), str(path))
        if not bool(torch.isfinite(x).all()):
            raise ValueError("features that are not finite")
        if not 0 <= int(y.min()) <= int(y.max()) < entry.num_outputs:
            raise ValueError(f"labels from {int(y.min())} to {int(y.max())}")
    edge_index = to_undirected(edges.t().contiguous(), num_nodes=len(x))
    graph = Data(x=x, edge_index=edge_index, y=y)
    return entry.task([graph], folds, FeatureEncoding("float", x.size(1)))


def load_city(entry: Entry, storage: Storage, *, augmented: bool = True) -> GraphTaskData:
    r"""Loads a road network; ``augmented`` adds what is known of the roads to the junctions."""
    if not hasattr(tarfile, "data_filter"):
        raise DatasetMissingError(
            f"Reading '{entry.name}' takes Python 3.11.4 or newer, since torch_geometric unpacks "
            f"its archive with a filter that {platform.python_version()} lacks."
        )
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


def load_temporal(
    entry: Entry,
    storage: Storage,
    *,
    lags: int | None = None,
    ratio: float = 0.9,
    validation: float = 0.1,
) -> GraphTaskData:
    r"""Loads a series as one graph a time step.

    Graph :math:`i` has the values of steps :math:`i, \dots, i + \text{lags} - 1` as ``x``
    ``[N, lags, 1]``, oldest first, and those of step :math:`i + \text{lags}` as ``y`` ``[N, 1]``.
    In time order, the first ``ratio`` of the graphs are for training, of which the last
    ``validation`` validates; the rest is for the test. A tenth of a short series is a few steps,
    too few to choose settings by: take more for that, and the tenth again for the final runs.
    """
    lags = _LAGS[entry.name] if lags is None else lags
    _, (path,) = storage.obtain(entry)
    values, edges, weights = _read_series(path, entry.name)
    steps, num_nodes = values.shape
    count = steps - lags
    if lags < 1 or not 0 < ratio < 1 or not 0 < validation < 1 or count < 3:
        raise DatasetError(
            f"Expected 'lags' of at least 1 that leave three steps or more, and a 'ratio' and a "
            f"'validation' between 0 and 1 (got lags={lags} of {steps} steps, ratio={ratio}, "
            f"validation={validation})"
        )
    series, edge_weight = (torch.from_numpy(array).float() for array in (values, weights))
    edge_index = torch.from_numpy(edges)
    graphs = [
        Data(
            x=series[start : start + lags].t().reshape(num_nodes, lags, 1).contiguous(),
            edge_index=edge_index,
            edge_weight=edge_weight,
            y=series[start + lags].reshape(num_nodes, 1),
        )
        for start in range(count)
    ]
    train = int(ratio * count)
    val = max(1, round(validation * train))
    counts = (train - val, val, count - train)
    if min(counts) < 1:
        raise DatasetError(
            f"Expected a 'ratio' that leaves graphs in every part (got {counts} of {count})"
        )
    notes = [f"Validation is the last {val} of {train} training steps; the source has none."]
    if entry.name != "pedalme":
        notes.append("Scaling used all steps, those of the test included, as published.")
    return entry.task(
        graphs, [consecutive_fold(counts)], FeatureEncoding("float", 1), notes=tuple(notes)
    )


def _read_series(path: Path, name: str) -> tuple[Array, Array, Array]:
    """A series ``[T, N]`` on a weighted graph: its values, edges ``[2, E]`` and weights ``[E]``."""
    with reading(path, f"a JSON object with the keys {', '.join(_KEYS[name])}"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__}")
        edges = np.array(content["edges"], dtype=np.int64).T
        weights = np.array(content.get("weights", np.ones(edges.shape[-1])), dtype=np.float64)
        if name == "wikimath":
            series = _read_visits(content)
        else:
            series = np.array(content[_KEYS[name][-1]], dtype=np.float64)
    with reading(path, "a finite series with one column per node and edges between those nodes"):
        shapes = f"a series of {series.shape}, edges of {edges.shape}, weights of {weights.shape}"
        if series.ndim != 2 or edges.shape != (2, len(weights)) or weights.ndim != 1:
            raise ValueError(shapes)
        if not ((edges >= 0) & (edges < series.shape[1])).all():
            raise ValueError(f"an edge to node {edges.max()} of {series.shape[1]}")
        if not (np.isfinite(series).all() and np.isfinite(weights).all()):
            raise ValueError("numbers that are not finite")
    return series, edges, weights


def _read_visits(content: Mapping[str, object]) -> NDArray[np.float64]:
    """The visits of every day, each article scaled to mean 0 and spread 1."""
    days = [content[str(day)] for day in range(int(str(content["time_periods"])))]
    visits = np.array([day["y"] for day in days if isinstance(day, dict)], dtype=np.float64)
    if len(visits) != len(days):
        raise ValueError(f"{len(days) - len(visits)} days without visits")
    spread = visits.std(axis=0)
    if not bool((spread > 0).all()):
        raise ValueError("an article with the same number of visits every day")
    return np.asarray((visits - visits.mean(axis=0)) / spread)
