"""The five heterophilous graphs with their ten official masks."""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.datasets import HeterophilousGraphDataset

from torch_grama.datasets.entry import ACCURACY, ROC_AUC, DataFile, Entry, Published, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import reading
from torch_grama.datasets.splits import PARTS, mask_folds
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData, Metric

_URLS = (
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data",
    "https://github.com/yandex-research/heterophilous-graphs/raw/main/data",
)
_MD5 = {
    "minesweeper": ("8a1a79dc3ad99fcd948d95a2149191e1", 135_045),
    "tolokers": ("8d23e7819e472e2efb23ab6bab61bb1a", 1_329_769),
}


def load_heterophilous(entry: Entry, storage: Storage) -> GraphTaskData:
    """Loads one of the five graphs with PyG's reader, from a file that is already here."""
    _, (path,) = storage.obtain(entry)
    with (
        tempfile.TemporaryDirectory() as scratch,
        reading(path, "an .npz file of the heterophilous benchmark"),
        # PyG announces what it does on stderr.
        contextlib.redirect_stderr(io.StringIO()),
    ):
        data = _LocalFile(path, scratch, entry.name).get(0)
        x, y = data["x"].to(torch.float), data["y"].to(torch.long)
        if x.dim() != 2 or y.shape != (x.size(0),):
            raise ValueError(f"features of shape {tuple(x.shape)}, labels of {tuple(y.shape)}")
        masks = (data[f"{part}_mask"] for part in PARTS)
        folds = mask_folds(*masks, num_nodes=x.size(0), where=str(path))
        edge_index = data["edge_index"]
    if not bool(torch.isfinite(x).all()):
        raise DatasetError(f"Expected finite features in '{path}' (got others); fetch it again")
    if not 0 <= int(y.min()) <= int(y.max()) < entry.num_outputs:
        raise DatasetError(
            f"Expected labels from 0 to {entry.num_outputs - 1} in '{path}' (got {int(y.min())} "
            f"to {int(y.max())}); fetch it again"
        )
    graph = Data(x=x, edge_index=edge_index, y=y)
    return entry.task([graph], folds, FeatureEncoding("float", x.size(1)))


class _LocalFile(HeterophilousGraphDataset):
    """PyG's reader without its unchecked download and without a cache of its own."""

    def __init__(self, path: Path, scratch: str, name: str) -> None:
        self._folder = path.parent
        super().__init__(scratch, name)

    @property
    def raw_dir(self) -> str:
        return str(self._folder)


def _entry(
    name: str, summary: str, metric: Metric, class_names: tuple[str, ...], published: Published
) -> Entry:
    word = name.replace("-", "_")
    md5, size = _MD5.get(word, (None, None))
    nodes, features = published.num_nodes or 0, published.num_features or 0
    train = nodes // 2
    val = (nodes - train) // 2
    urls = tuple(f"{url}/{word}.npz" for url in _URLS)
    return Entry(
        name=name,
        family="heterophilous",
        summary=summary,
        level="node",
        kind="classification",
        metric=metric,
        num_outputs=published.num_outputs or 0,
        loader=load_heterophilous,
        published=replace(
            published,
            num_graphs=1,
            num_folds=10,
            split=(train, val, nodes - train - val),
            edges="undirected",
            source="Platonov et al., 2023",
        ),
        sources=(
            Source("npz", (DataFile(f"heterophilous/{word}/raw/{word}.npz", urls, md5, size),)),
        ),
        disk_bytes=size or nodes * features * 4,
        class_names=class_names,
        origin="https://github.com/yandex-research/heterophilous-graphs",
        licence="MIT",
        citation="Platonov, Kuznedelev, Diskin, Babenko, Prokhorenkova: A critical look at the "
        "evaluation of GNNs under heterophily: Are we really making progress?, 2023",
    )


ENTRIES = (
    _entry(
        "roman-empire",
        "syntactic role of the words of an article",
        ACCURACY,
        (),
        Published(
            num_nodes=22_662,
            num_edges=32_927,
            num_features=300,
            num_outputs=18,
            mean_degree=2.91,
            diameter=6824,
            edge_homophily=0.05,
        ),
    ),
    _entry(
        "amazon-ratings",
        "average rating of products bought together",
        ACCURACY,
        (),
        Published(
            num_nodes=24_492,
            num_edges=93_050,
            num_features=300,
            num_outputs=5,
            mean_degree=7.60,
            diameter=46,
            edge_homophily=0.38,
        ),
    ),
    _entry(
        "minesweeper",
        "which cells of a grid hold mines?",
        ROC_AUC,
        ("free", "mine"),
        Published(
            num_nodes=10_000,
            num_edges=39_402,
            num_features=7,
            num_outputs=2,
            mean_degree=7.88,
            diameter=99,
            edge_homophily=0.68,
        ),
    ),
    _entry(
        "tolokers",
        "which crowd workers were banned?",
        ROC_AUC,
        ("kept", "banned"),
        Published(
            num_nodes=11_758,
            num_edges=519_000,
            num_features=10,
            num_outputs=2,
            mean_degree=88.28,
            diameter=11,
            edge_homophily=0.59,
        ),
    ),
    _entry(
        "questions",
        "which users of a forum stay active?",
        ROC_AUC,
        (),
        Published(
            num_nodes=48_921,
            num_edges=153_540,
            num_features=301,
            num_outputs=2,
            mean_degree=6.28,
            diameter=16,
            edge_homophily=0.84,
        ),
    ),
)
