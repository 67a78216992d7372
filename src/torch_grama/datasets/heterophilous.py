"""The five heterophilous graphs with their ten official masks."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from torch_grama.datasets.entry import ACCURACY, ROC_AUC, DataFile, Entry, Published, Source
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import read_npz, reading
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
        raise DatasetError(f"Expected finite features in '{path}' (got others); fetch it again")
    if not 0 <= int(y.min()) <= int(y.max()) < entry.num_outputs:
        raise DatasetError(
            f"Expected labels from 0 to {entry.num_outputs - 1} in '{path}' (got {int(y.min())} "
            f"to {int(y.max())}); fetch it again"
        )
    edge_index = to_undirected(edges.t().contiguous(), num_nodes=len(x))
    graph = Data(x=x, edge_index=edge_index, y=y)
    return entry.task([graph], folds, FeatureEncoding("float", x.size(1)))


def _entry(
    name: str, nodes: int, edges: int, features: int, classes: int, metric: Metric, summary: str
) -> Entry:
    word = name.replace("-", "_")
    md5, size = _MD5.get(word, (None, None))
    train = nodes // 2
    val = (nodes - train) // 2
    urls = tuple(f"{url}/{word}.npz" for url in _URLS)
    degree, diameter, homophily = _SHAPE[name]
    return Entry(
        name=name,
        family="heterophilous",
        summary=summary,
        level="node",
        kind="classification",
        metric=metric,
        num_outputs=classes,
        loader=load_heterophilous,
        published=Published(
            num_graphs=1,
            num_nodes=nodes,
            num_edges=edges,
            mean_degree=degree,
            edge_homophily=homophily,
            diameter=diameter,
            num_features=features,
            num_folds=10,
            split=(train, val, nodes - train - val),
            edges="undirected",
            source="Platonov et al., 2023",
        ),
        sources=(
            Source("npz", (DataFile(f"heterophilous/{word}/raw/{word}.npz", urls, md5, size),)),
        ),
        disk_bytes=size or nodes * features * 4,
        class_names=_CLASSES.get(name, ()),
        origin="https://github.com/yandex-research/heterophilous-graphs",
        licence="MIT",
        citation="Platonov, Kuznedelev, Diskin, Babenko, Prokhorenkova: A critical look at the "
        "evaluation of GNNs under heterophily: Are we really making progress?, 2023",
    )


_CLASSES = {"minesweeper": ("free", "mine"), "tolokers": ("kept", "banned")}
# average degree, diameter, edge homophily
_SHAPE = {
    "roman-empire": (2.91, 6824, 0.05),
    "amazon-ratings": (7.60, 46, 0.38),
    "minesweeper": (7.88, 99, 0.68),
    "tolokers": (88.28, 11, 0.59),
    "questions": (6.28, 16, 0.84),
}
_ROMAN = "syntactic role of the words of an article"
_AMAZON = "average rating of products bought together"
ENTRIES = (
    _entry("roman-empire", 22_662, 32_927, 300, 18, ACCURACY, _ROMAN),
    _entry("amazon-ratings", 24_492, 93_050, 300, 5, ACCURACY, _AMAZON),
    _entry("minesweeper", 10_000, 39_402, 7, 2, ROC_AUC, "which cells of a grid hold mines?"),
    _entry("tolokers", 11_758, 519_000, 10, 2, ROC_AUC, "which crowd workers were banned?"),
    _entry("questions", 48_921, 153_540, 301, 2, ROC_AUC, "which users of a forum stay active?"),
)
