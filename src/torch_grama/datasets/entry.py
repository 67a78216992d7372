"""One line of the catalogue: what a data set is, where it comes from and how it is loaded."""

from __future__ import annotations

import hashlib
import importlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Kind, Level, Metric

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from torch_grama.datasets.storage import Storage

Option = str | int | float | bool

METRICS = {
    **{name: Metric(name, True) for name in ("accuracy", "roc_auc", "average_precision")},
    **{name: Metric(name, False) for name in ("mae", "mse", "log10_mse")},
}
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
