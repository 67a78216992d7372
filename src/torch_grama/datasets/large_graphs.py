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
    ACCURACY,
    AVERAGE_PRECISION,
    MSE,
    DataFile,
    Entry,
    Published,
    Source,
)
from torch_grama.datasets.errors import DatasetMissingError
from torch_grama.datasets.raw_arrays import reading
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData

_CITY = "https://github.com/LeonResearch/City-Networks/raw/refs/heads/main/data"
_LAND = "https://zenodo.org/records/16895532/files"


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


def _city_entry(name: str, nodes: int, edges: int) -> Entry:
    archive = DataFile(f"city-networks/{name}.tar.gz", (f"{_CITY}/{name}.tar.gz",))
    return Entry(
        name=f"city-{name}",
        family="city",
        summary=f"how far roads reach within 16 hops of each junction of {name.title()}",
        level="node",
        kind="classification",
        metric=ACCURACY,
        num_outputs=10,
        loader=load_city,
        published=Published(
            num_graphs=1,
            num_nodes=nodes,
            num_edges=edges,
            num_features=37,
            split=(None, None, None),
            edges="undirected",
            source="Liang et al., 2025",
        ),
        sources=(Source("archive", (archive,)),),
        disk_bytes=nodes * 700,
        options={"augmented": (True, False)},
        origin="https://github.com/LeonResearch/City-Networks",
        licence="not stated; map data of OpenStreetMap: ODbL",
        citation="Liang, Sáez de Ocáriz Borde, Sripathmanathan, Bronstein, Dong: Towards "
        "Quantifying Long-Range Interactions in Graph Machine Learning, 2025",
    )


def _land_entry(name: str, nodes: int, edges: int, classes: int, summary: str) -> Entry:
    archive = DataFile(f"graphland/{name}.zip", (f"{_LAND}/{name}.zip",))
    directed = name.startswith(("pokec", "web", "city-roads"))
    timed = not name.startswith("city") and name != "web-traffic"
    return Entry(
        name=name.lower(),
        family="graphland",
        summary=summary,
        level="node",
        kind="classification" if classes else "regression",
        metric={0: MSE, 2: AVERAGE_PRECISION}.get(classes, ACCURACY),
        num_outputs=classes or 1,
        loader=load_land,
        published=Published(
            num_graphs=1,
            num_nodes=nodes,
            # edges of a directed graph are made undirected, so their published number says little
            num_edges=None if directed else edges // 2,
            split=(None, None, None),
            edges="undirected",
            source="Bazhenov et al., 2024",
        ),
        sources=(Source("archive", (archive,)),),
        disk_bytes=nodes * 400 + edges * 32,
        options={"split": ("RL", "RH", *(("TH",) if timed else ()))},
        origin="https://github.com/yandex-research/graphland",
        licence="as stated by Zenodo record 16895532",
        citation="Bazhenov, Platonov, Prokhorenkova: GraphLand: Evaluating Graph Machine Learning "
        "Models on Diverse Industrial Data, 2024",
    )


ENTRIES = (
    _city_entry("paris", 114_127, 182_511),
    _city_entry("shanghai", 183_917, 262_092),
    _city_entry("la", 240_587, 341_523),
    _city_entry("london", 568_795, 756_502),
    _land_entry("hm-categories", 46_563, 21_461_990, 21, "the category of products"),
    _land_entry("pokec-regions", 1_632_803, 30_622_564, 183, "where users of a network live"),
    _land_entry("web-topics", 2_890_331, 12_895_369, 28, "the topic of web sites"),
    _land_entry("tolokers-2", 11_758, 1_038_000, 2, "which crowd workers were banned?"),
    _land_entry("city-reviews", 148_801, 2_330_830, 2, "which reviewers are fraudulent?"),
    _land_entry("artnet-exp", 50_405, 560_696, 2, "which artists post explicit content?"),
    _land_entry("web-fraud", 2_890_331, 12_895_369, 2, "which web sites are fraudulent?"),
    _land_entry("hm-prices", 46_563, 21_461_990, 0, "the price of products"),
    _land_entry("avazu-ctr", 76_269, 21_968_154, 0, "how often devices click on advertisements"),
    _land_entry("city-roads-M", 57_073, 132_571, 0, "the speed on the roads of a city"),
    _land_entry("city-roads-L", 142_257, 279_062, 0, "the speed on the roads of a large city"),
    _land_entry("twitch-views", 168_114, 13_595_114, 0, "the views of channels"),
    _land_entry("artnet-views", 50_405, 560_696, 0, "the views of artists"),
    _land_entry("web-traffic", 2_890_331, 12_895_369, 0, "the visits of web sites"),
)
