"""Cora, CiteSeer and PubMed with the ten splits of Geom-GCN."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.io.planetoid import edge_index_from_dict
from torch_geometric.transforms import NormalizeFeatures

from torch_grama.datasets.entry import ACCURACY, DataFile, Entry, Published, Source
from torch_grama.datasets.raw_arrays import CsrMatrix, load_pickle, read_npz, reading
from torch_grama.datasets.splits import mask_folds
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

_PICKLES = ("x", "tx", "allx", "y", "ty", "ally", "graph")
_PARTS = ("train_mask", "val_mask", "test_mask")
_NUM_SPLITS = 10
_PLANETOID = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data",
    "https://github.com/kimiyoung/planetoid/raw/master/data",
)
_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/splits"


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


def _entry(
    title: str,
    nodes: int,
    edges: int,
    features: int,
    classes: int,
    split: tuple[int, int, int],
    disk_bytes: int,
    md5: str,
) -> Entry:
    word = title.lower()
    folder = f"planetoid/{title}/raw"
    addresses = [
        (file, tuple(f"{url}/{file}" for url in _PLANETOID))
        for file in (f"ind.{word}.{part}" for part in (*_PICKLES, "test.index"))
    ] + [
        (file, (f"{_GEOM_GCN}/{file}",))
        for file in (f"{word}_split_0.6_0.2_{number}.npz" for number in range(_NUM_SPLITS))
    ]
    files = [
        DataFile(f"{folder}/{file}", urls, digest)
        for (file, urls), digest in zip_longest(addresses, md5.split())
    ]
    return Entry(
        name=word,
        family="citation",
        summary="topic of a paper from its words and citations",
        level="node",
        kind="classification",
        metric=ACCURACY,
        num_outputs=classes,
        loader=load_citation,
        published=Published(
            num_graphs=1,
            num_nodes=nodes,
            num_edges=edges,
            num_features=features,
            num_folds=_NUM_SPLITS,
            split=split,
            source="Planetoid in PyG; split files of Geom-GCN",
        ),
        sources=(Source("planetoid", tuple(files)),),
        disk_bytes=disk_bytes,
        options={"split": ("geom-gcn", "public"), "normalize": (True, False)},
        origin="https://github.com/kimiyoung/planetoid, "
        "https://github.com/graphdml-uiuc-jlu/geom-gcn",
        licence="MIT (Planetoid); splits: not stated",
        citation="Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph "
        "Embeddings, 2016; Pei, Wei, Chang, Lei, Yang: Geom-GCN, 2020",
    )


# In the order of the files: the eight of Planetoid, then the ten splits.
_CORA_MD5 = """
    190831eee19d8f330d89d94b40a65c5a b29c36916768e1d2f55391c1aa9317ac
    c9083193a57057dd1238321e140194d7 78344284e3ff7fd24eb9c307d51351eb
    48bf43f54fa5b86089a4bd0299795f10 125d70817fe1fdbfdcad991995e81579
    b37c419cec179f45834467630c278e4c 9b822cae1d01f41e8bf8782e20367c0e
    f2e490dd9d3fd370ec818ee9b47e3a4c a9a9972f1a14661b7a16b3b8c2a56e2c
    3b9bdbaf7597674ba8b13f6d79409ac7 7d1c72a6e4364c889ce766600b5593b5
    914f77c94d9149c29aff79db70460e7f ec432e04645dcc2b894bad9a37579662
    dce39e28f0e652caebb96cfac1d5ee7d 4c693524a3450911028eb6f68d645cf4
    c603ffacc938881fff3d88ac7077afdb a9e00944419274a2e1e9c0e15dc1a4a7
"""
_CITESEER_MD5 = """
    baeb0100b5a8af8d41f928113ce0a4e5 c25ab826a7e95c0922ab625de705f7df
    28486b4b9c4ee076b4eee2febd89ba86 8b99f50aa950fbbf9a7a2b71ff9cac97
    356894a73b7a7eff43c3580f2fcf92a4 f0df7e5f859245e32987bfd224d01657
    5f88483d5f5cc2b26b987bbbfb695005 70af39d4dff8aaa5c63f8dc526b16534
    ecb10d6ed36bfcd0918dc7f1eb61c3e7 5dd03c2037892f94358ee0c26d398e34
    42f09849200a8a7748227ea5652d4e92 169f7cdc8759cf9ded3f556a827547bf
    b0fc805e8a33b4fb2cd053397bb2fe3f 8488992d224f63611c9cf8fdc1ea0935
    351c4d8e01f26b7fe3fca7638c933725 b20f13e93061058412443ccff899239b
    9fc13bdf9ad74e2187660f7cff5d13b5 0874b7e9f6d16cb0a298b5b244681078
"""

ENTRIES = (
    _entry("Cora", 2_708, 10_556, 1_433, 7, (1_192, 796, 497), 600_000, _CORA_MD5),
    _entry("CiteSeer", 3_327, 9_104, 3_703, 6, (1_596, 1_065, 666), 1_060_000, _CITESEER_MD5),
    _entry("PubMed", 19_717, 88_648, 500, 3, (9_463, 6_310, 3_944), 12_000_000, ""),
)
