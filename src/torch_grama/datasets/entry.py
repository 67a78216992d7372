"""Lines of the catalogue: what a data set is, where it comes from and how it is loaded.

Sets that are generated have a line for every size, distance and choice that a name can state.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Kind, Level, Metric

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from torch_grama.datasets.storage import Storage

Option = str | int | float | bool

ACCURACY = Metric("accuracy", True)
ROC_AUC = Metric("roc_auc", True)
AVERAGE_PRECISION = Metric("average_precision", True)
MAE = Metric("mae", False)
MSE = Metric("mse", False)
LOG10_MSE = Metric("log10_mse", False)
METRICS = {m.name: m for m in (ACCURACY, ROC_AUC, AVERAGE_PRECISION, MAE, MSE, LOG10_MSE)}
NO_FEATURES = FeatureEncoding("none", 0)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class DataFile:
    r"""A file a data set is read from."""

    path: str  # where it lies below a data folder, with forward slashes
    # public addresses, tried in turn; one without encryption needs a checksum
    urls: tuple[str, ...] = ()
    md5: str | None = None  # the documented checksum
    size: int | None = None  # its size in bytes, where known

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path)
        if parts.is_absolute() or ".." in parts.parts or not parts.parts:
            raise ValueError(f"Expected a path inside a data folder (got {self.path!r})")
        if self.md5 is not None and not re.fullmatch("[0-9a-fA-F]{32}", self.md5):
            raise ValueError(
                f"Expected 'md5' of '{self.path}' to be 32 hexadecimal digits (got {self.md5!r})"
            )
        for url in self.urls:
            address = urllib.parse.urlsplit(url)
            open_allowed = self.md5 is not None or address.hostname in _LOOPBACK
            if address.scheme != "https" and not (address.scheme == "http" and open_allowed):
                raise ValueError(
                    f"Expected an 'https' address for '{self.path}', or 'http' together with a "
                    f"checksum (got {url!r})"
                )

    @property
    def name(self) -> str:
        r"""What it is called, without its folder."""
        return PurePosixPath(self.path).name

    def find_fault(self, path: Path) -> str | None:
        r"""Says what in a file differs from what is published about it, if anything does."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size} bytes where {self.size} are published"
        if self.md5 is None:
            return "it is empty" if size == 0 else None
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "md5").hexdigest()
        return None if found == self.md5.lower() else f"its md5 is {found}, not {self.md5}"


@dataclass(frozen=True)
class Source:
    r"""One of the forms in which a data set can be had."""

    name: str  # a word for it, such as ``csv`` or ``archive``
    files: tuple[DataFile, ...]  # all the files it takes
    modules: tuple[str, ...] = ()  # modules that reading it takes beyond the core


@dataclass(frozen=True)
class Published:
    r"""Statistics as published; :obj:`None` where the source does not state one."""

    num_graphs: int | None = None  # number of graphs (of time steps, for a forecast)
    num_nodes: int | None = None  # nodes of all graphs together
    num_edges: int | None = None  # edges of all graphs together, counted as ``edges`` says
    mean_nodes: float | None = None  # nodes of a graph on average
    mean_edges: float | None = None  # edges of a graph on average, counted as ``edges`` says
    mean_degree: float | None = None  # entries of ``edge_index`` a node, on average
    edge_homophily: float | None = None  # share of edges between nodes of one class
    diameter: float | None = None  # longest shortest path; listed, never measured
    num_features: int | None = None  # columns of the node features
    num_folds: int | None = 1  # number of official splits
    # training, validation and test part of the first split, as far as stated
    split: tuple[int | None, int | None, int | None] | None = None
    # whether every entry of ``edge_index`` is counted or each pair once
    edges: Literal["directed", "undirected"] = "directed"
    exact: bool = True  # whether averages hold up to rounding, or in expectation only
    source: str = ""  # where they are published


@dataclass(frozen=True, kw_only=True)
class Entry:
    r"""A data set as the catalogue knows it; the defaults are those of generated sets."""

    name: str  # the word it is loaded by
    family: str  # the suite it belongs to
    summary: str  # one line for people
    level: Level = "node"  # whether nodes or graphs carry the target
    kind: Kind = "regression"  # the kind of target
    metric: Metric  # the published metric
    num_outputs: int = 1  # classes, labels or targets
    loader: str  # ``module.function`` of this package: what loads it, imported when it is called
    published: Published  # its published statistics
    sources: tuple[Source, ...] = ()  # the preferred form first; empty if generated
    disk_bytes: int = 0  # space it takes, roughly, downloads and prepared form together
    # values each option of the loader may take, the default first; a type stands for any of it
    options: Mapping[str, tuple[Option | type[int] | type[float], ...]] = field(
        default_factory=dict
    )
    parameter_budget: int | None = None  # largest model the benchmark allows
    class_names: tuple[str, ...] = ()  # names of classes or labels
    origin: str = "generated"  # where it comes from, in words or as an address
    licence: str = "none needed: generated"  # terms of the source, as far as stated
    citation: str = ""  # the work to cite
    arguments: tuple[Any, ...] = ()  # what the name of a generated set states

    @property
    def unchecked_files(self) -> tuple[str, ...]:
        r"""Files with a public address but without a documented checksum."""
        files = [file for source in self.sources for file in source.files]
        return tuple(sorted({file.path for file in files if file.urls and file.md5 is None}))

    def load(self, storage: Storage, **options: Option) -> GraphTaskData:
        module, _, function = self.loader.partition(".")
        loader = getattr(importlib.import_module(f"torch_grama.datasets.{module}"), function)
        task: GraphTaskData = loader(self, storage, **options)
        return task

    def task(
        self,
        graphs: Sequence[Data],
        folds: Sequence[Fold],
        node_encoding: FeatureEncoding,
        edge_encoding: FeatureEncoding = NO_FEATURES,
        *,
        notes: tuple[str, ...] = (),
        source: str | None = None,
    ) -> GraphTaskData:
        r"""Joins loaded graphs with what the catalogue knows about them."""
        return GraphTaskData(
            name=self.name,
            graphs=graphs,
            folds=folds,
            level=self.level,
            kind=self.kind,
            metric=self.metric,
            num_outputs=self.num_outputs,
            node_encoding=node_encoding,
            edge_encoding=edge_encoding,
            parameter_budget=self.parameter_budget,
            class_names=self.class_names,
            source=self.origin if source is None else source,
            licence=self.licence,
            citation=self.citation,
            notes=notes,
        )


_TOPOLOGIES = "line", "ring", "crossed-ring"
_VARIANTS = "paper", "legacy", "carry"
_REACHES = {
    "power": "adjacency to the power", "shell": "nodes at hop", "ball": "nodes up to hop"
}  # fmt: skip
_RANGES = "line", "grid", "er", "ba", "sbm"
_PROPERTIES = {
    "diameter": "the longest shortest path of a random graph",
    "sssp": "hops of every node from a marked source",
    "eccentricity": "how far the farthest node is from each node",
}
_ECHO = {
    "sssp": "hops from a marked source, up to 40",
    "ecc": "how far the farthest node is, up to 40 hops",
    "diam": "the longest shortest path, 17 to 40 hops",
}
_ECHO_HUB = "https://huggingface.co/datasets/lucamiglior/echo-benchmark"
_ISING = {"easy": 3.5, "hard": 2.6}  # the exponent of the couplings
_RANGE_CITATION = (
    "Bamberger, Gutteridge, le Roux, Bronstein, Dong: On Measuring Long-Range Interactions in "
    "Graph Neural Networks, 2025"
)
_SEED = {"seed": (1234, int)}


def generated_entry(name: str) -> Entry | None:
    r"""Returns the entry of a name.

    Its ``arguments`` are what the name states. It is :obj:`None` where the first word of the name
    is that of no family.

    Raises:
        ValueError: If the other words state no set of the family.
    """
    family = name.partition("-")[0]
    if family not in _FAMILIES:
        return None
    pattern, example, make = _FAMILIES[family]
    found = re.fullmatch(f"{family}-{pattern}", name)
    if found is None:
        raise ValueError(f"Expected {example} (got '{name}')")
    words = (int(word) if word and word.isdecimal() else word for word in found.groups())
    return make(name, *words)


def _transfer(name: str, topology: str, distance: int, variant: str | None) -> Entry:
    variant = variant or "paper"
    is_legacy, is_line = variant == "legacy", topology == "line"
    nodes = distance + (not is_legacy) if is_line else 2 * distance
    edges = {"line": nodes - 1, "ring": 2 * distance, "crossed-ring": 4 * distance - 4}[topology]
    if is_legacy:  # every entry counts: self-loops of a line, two edges of a crossed ring twice
        edges = 2 * edges + {"line": nodes, "ring": 0, "crossed-ring": 4}[topology]
    return Entry(
        name=name,
        family="transfer",
        arguments=(topology, distance, variant),
        summary=f"carry a value {distance} hops along a {topology.replace('-', ' ')}",
        metric=MSE,
        loader="graph_transfer.load_transfer",
        published=Published(
            num_graphs=1200,
            num_nodes=1200 * nodes,
            num_edges=1200 * edges,
            num_features=3 if variant == "carry" else 1,
            split=(1000, 100, 100),
            edges="directed" if is_legacy else "undirected",
            source="the construction stated in GRAMA, appendix on graph transfer",
        ),
        options={"variant": _first(variant, _VARIANTS), **_SEED},
        citation="Eliasof, Gravina, Ceni, Gallicchio, Bacciu, Schönlieb: GRAMA: Adaptive Graph "
        "Autoregressive Moving Average Models, 2025",
    )


def _property(name: str, task: str, labels: str | None) -> Entry:
    labels = labels or "published"
    return Entry(
        name=name,
        family="property",
        arguments=(task, labels),
        summary=_PROPERTIES[task],
        level="graph" if task == "diameter" else "node",
        metric=LOG10_MSE,
        loader="graph_property.load_property",
        published=Published(
            num_graphs=7040,
            num_nodes=202_880,
            num_features=2,
            split=(5120, 640, 1280),
            source="the generator of PNA with 25 to 34 nodes, as used by A-DGN",
        ),
        disk_bytes=2_500_000,
        options={"labels": _first(labels, ("published", "true")), **_SEED},
        citation="Gravina, Bacciu, Gallicchio: Anti-Symmetric DGN, 2023, after Corso, Cavalleri, "
        "Beaini, Liò, Veličković: Principal Neighbourhood Aggregation for Graph Nets, 2020",
    )


def _barbell(name: str, size: int) -> Entry:
    return Entry(
        name=name,
        family="barbell",
        arguments=(size,),
        summary=f"the mean of the other of two cliques of {size} nodes, across one edge",
        metric=MSE,
        loader="range_tasks.load_barbell",
        published=Published(
            num_graphs=150,
            num_nodes=150 * 2 * size,
            num_edges=150 * (size * (size - 1) + 1),
            num_features=1,
            split=(50, 50, 50),
            edges="undirected",
            source="the construction of Bamberger et al., 2025",
        ),
        options=_SEED,
        citation=_RANGE_CITATION,
    )


def _range(name: str, reach: str, topology: str, hops: int, variant: str | None) -> Entry:
    variant = variant or "square"
    edges = {"line": 99, "ba": 99, "grid": 480}.get(topology)
    return Entry(
        name=name,
        family="ranges",
        arguments=(reach, topology, hops, variant),
        summary=f"a sum over the {_REACHES[reach]} {hops} of '{topology}'",
        metric=MSE,
        loader="range_tasks.load_range",
        published=Published(
            num_graphs=500,
            num_nodes=500 * (256 if topology == "grid" else 100),
            num_edges=500 * edges if edges else None,
            num_features=1,
            split=(300, 100, 100),
            edges="undirected",
            source="the construction of Bamberger et al., 2025, on longer random graphs",
        ),
        options={"variant": _first(variant, ("square", "copy")), **_SEED},
        citation=_RANGE_CITATION,
    )


def _echo(name: str, task: str, variant: str | None) -> Entry:
    variant = variant or "regenerated"
    is_new = variant == "regenerated"
    files = [f"{part}_data.pt" for part in ("train", "val", "test")]
    address = f"{_ECHO_HUB}/resolve/main/echo-synth"
    hub = Source("hub", tuple(DataFile(f"echo-synth/{f}", (f"{address}/{f}",)) for f in files))
    return Entry(
        name=name,
        family="echo",
        arguments=(task, variant),
        summary=f"{_ECHO[task]} ({variant})",
        level="graph" if task == "diam" else "node",
        metric=MAE,
        loader="echo.load_echo",
        published=Published(
            num_graphs=10_080,
            num_features=2,
            split=(8064, 1008, 1008) if is_new else (None, None, None),
            source="Miglior et al., 2025; the split of the regenerated set is made here",
        ),
        sources=() if is_new else (hub,),
        disk_bytes=8_000_000 if is_new else 60_000_000,
        options={"variant": _first(variant, ("regenerated", "published")), **_SEED},
        origin="generated" if is_new else _ECHO_HUB,
        licence="none needed: generated" if is_new else "not stated",
        citation="Miglior, Tolloso, Gravina, Bacciu: Can You Hear Me Now? A Benchmark for "
        "Long-Range Graph Propagation, 2025",
    )


def _ising(name: str, side: int, kind: str) -> Entry:
    nodes = 10_000 * side**2
    return Entry(
        name=name,
        family="ising",
        arguments=(side, kind),
        summary=f"the field of {side} x {side} spins with couplings of exponent {_ISING[kind]} "
        "(regenerated)",
        metric=LOG10_MSE,
        loader="ising.load_ising",
        published=Published(
            num_graphs=10_000,
            num_nodes=nodes,
            num_edges=4 * nodes,
            num_features=1,
            split=(8000, 1000, 1000),
            source="the construction of LRIM, 2026; the split is made here",
        ),
        disk_bytes=6 * nodes,
        options=_SEED,
        citation="LRIM: a Physics-Based Benchmark for Provably Evaluating Long-Range Capabilities "
        "in Graph Learning, ICLR 2026",
    )


def _first(word: str, words: tuple[str, ...]) -> tuple[str, ...]:
    return word, *(other for other in words if other != word)


_FAMILIES: dict[str, tuple[str, str, Callable[..., Entry]]] = {
    "transfer": (
        r"(line|ring|crossed-ring)-([2-9]|[1-9][0-9]+)(?:-(paper|legacy|carry))?",
        "a name like 'transfer-ring-10' or 'transfer-line-5-carry', with a distance of at least 2",
        _transfer,
    ),
    "property": (
        r"(diameter|sssp|eccentricity)(?:-(published|true))?",
        "'property-diameter', 'property-sssp' or 'property-eccentricity', with '-true' or "
        "'-published'",
        _property,
    ),
    "barbell": (
        r"([2-9]|[1-9][0-9]+)", "a name like 'barbell-50', with 2 nodes or more", _barbell
    ),
    "range": (
        r"(power|shell|ball)-(line|grid|er|ba|sbm)-([1-9]|10)(?:-(square|copy))?",
        "a name like 'range-shell-grid-10' or 'range-power-line-5-copy', with 1 to 10 hops, a "
        "reach of power, shell, ball and a topology of line, grid, er, ba, sbm",
        _range,
    ),
    "echo": (
        r"(sssp|ecc|diam)(?:-(regenerated|published))?",
        "'echo-sssp', 'echo-ecc' or 'echo-diam', with '-published' for the files of the authors",
        _echo,
    ),
    "ising": (
        r"(16|32)-(easy|hard)",
        "'ising-16-easy', 'ising-16-hard', 'ising-32-easy' or 'ising-32-hard'",
        _ising,
    ),
}  # fmt: skip

LISTED = (
    *(f"transfer-{topology}-{hops}" for topology in _TOPOLOGIES for hops in (3, 5, 10, 50)),
    *(f"property-{task}" for task in _PROPERTIES),
    *(f"barbell-{size}" for size in (10, 20, 50)),
    *(f"range-{reach}-{topology}-10" for reach in _REACHES for topology in _RANGES),
    *(f"echo-{task}" for task in _ECHO),
    *(f"ising-{side}-{kind}" for side in (16, 32) for kind in _ISING),
)
"""The names that the catalogue lists; others exist beside them."""
