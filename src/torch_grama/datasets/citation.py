"""Cora, CiteSeer and PubMed with the ten splits of Geom-GCN."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.io.planetoid import edge_index_from_dict
from torch_geometric.transforms import NormalizeFeatures

from torch_grama.datasets.entry import Entry
from torch_grama.datasets.raw_arrays import CsrMatrix, load_pickle, read_npz, reading
from torch_grama.datasets.splits import mask_folds
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

_PICKLES = ("x", "tx", "allx", "y", "ty", "ally", "graph")
_PARTS = ("train_mask", "val_mask", "test_mask")
_NUM_SPLITS = 10


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
    223 nodes in no part. ``split="public"`` gives the division of Planetoid.
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
        masks = np.zeros((3, total), dtype=bool)
        labelled = len(dense["y"])
        masks[0, :labelled] = True
        masks[1, labelled : labelled + 500] = True
        masks[2, index] = True
        fold = Fold(*(torch.from_numpy(mask) for mask in masks))
        return torch.from_numpy(x), edge_index, torch.from_numpy(y.argmax(axis=1)), fold


def _dense(item: object) -> np.ndarray:
    if isinstance(item, CsrMatrix):
        return np.asarray(item.toarray())
    if isinstance(item, np.ndarray) and item.ndim == 2:
        return item
    raise TypeError(f"a {type(item).__name__} for a matrix")
