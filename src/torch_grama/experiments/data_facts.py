"""What a model must know of a data set, kept beside the run so that the data is not needed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from torch_grama.datasets import (
    RWSE,
    Column,
    CompactGraphs,
    FeatureEncoding,
    GraphTaskData,
    LapPE,
    LocalDegreeProfile,
    Metric,
    TableForm,
    load,
)
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.storage import Report
from torch_grama.datasets.task_data import EncodingKind, Kind, Level
from torch_grama.datasets.transforms import Transform
from torch_grama.experiments.config import ConfigError, DataConfig
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import FACTS, LIMITS, RunError
from torch_grama.runs.safe_files import read_plain
from torch_grama.runs.words import format_count


@dataclass(frozen=True)
class DataFacts:
    r"""What decides the shape of a model."""

    level: Level  # whether nodes or graphs carry the target
    kind: Kind  # the kind of target
    metric: Metric  # the metric
    num_outputs: int  # number of classes, labels or targets
    node_encoding: FeatureEncoding  # how node features are to be read
    edge_encoding: FeatureEncoding  # how edge features are to be read
    num_graphs: int  # number of graphs
    mean_nodes: float = 0.0  # nodes of a graph, on average
    seq_len: int = 0  # length of the sequence of node features; 0 if there is none
    has_edge_weight: bool = False  # whether edges have weights
    pe_channels: int = 0  # columns of positional encodings
    num_eigenvectors: int = 0  # how many of these, the last ones, are Laplacian eigenvectors
    parameter_budget: int | None = None  # largest number of parameters that the benchmark allows
    class_names: tuple[str, ...] = ()  # what the classes or labels are called
    feature_names: tuple[str, ...] = ()  # what the columns of the node features are called
    # how tables became features: what the training part put into missing cells, and the words that
    # it knew
    form: TableForm | None = None

    @classmethod
    def of(cls, data: GraphTaskData) -> DataFacts:
        graph = data.graphs[0]
        walks, eigenvectors = (
            0 if pe is None else int(pe.size(1))
            for pe in (graph.get("rwse"), graph.get("lap_vectors"))
        )
        return cls(
            level=data.level,
            kind=data.kind,
            metric=data.metric,
            num_outputs=data.num_outputs,
            node_encoding=data.node_encoding,
            edge_encoding=data.edge_encoding,
            num_graphs=len(data.graphs),
            mean_nodes=mean_nodes(data),
            seq_len=int(graph.x.size(1)) if graph.x is not None and graph.x.dim() == 3 else 0,
            has_edge_weight=graph.get("edge_weight") is not None,
            pe_channels=walks + eigenvectors,
            num_eigenvectors=eigenvectors,
            parameter_budget=data.parameter_budget,
            class_names=tuple(data.class_names),
            feature_names=tuple(data.feature_names),
            form=data.form,
        )

    def fingerprint(self) -> str:
        return fingerprint([json.dumps(asdict(self))])

    def _check(self) -> None:
        """Raises where a value cannot be, or is a size that no model is built for."""
        encodings = (self.node_encoding, self.edge_encoding)
        sizes = [self.num_outputs, self.seq_len, self.pe_channels]
        for encoding in encodings:
            sizes += [encoding.num_columns, *encoding.sizes]
        words = (*self.class_names, *self.feature_names, self.metric.name)
        if (
            any(type(size) is not int or not 0 <= size <= _LARGEST for size in sizes)
            or any(type(word) is not str for word in words)
            or type(self.num_graphs) is not int
            or type(self.mean_nodes) not in (int, float)
            or type(self.has_edge_weight) is not bool
            or type(self.metric.higher_is_better) is not bool
            or type(self.parameter_budget) not in (int, type(None))
            or self.level not in get_args(Level)
            or self.kind not in get_args(Kind)
            or any(encoding.kind not in get_args(EncodingKind) for encoding in encodings)
        ):
            raise ValueError("a value is of another kind")

    def save(self, path: Path) -> None:
        content = asdict(self)
        if self.form is not None:
            content["form"] = {
                "nodes": [_stated(column) for column in self.form.nodes],
                "edges": [_stated(column) for column in self.form.edges],
                "weight": None if self.form.weight is None else _stated(self.form.weight),
            }
        write_atomically(path, f"{json.dumps(content, indent=2)}\n".encode())

    @classmethod
    def load(cls, path: Path) -> DataFacts:
        try:
            content = json.loads(read_plain(path, LIMITS[FACTS]))
            content["metric"] = Metric(**content["metric"])
            for name in ("node_encoding", "edge_encoding"):
                encoding = content[name]
                content[name] = FeatureEncoding(
                    encoding["kind"], encoding["num_columns"], tuple(encoding["sizes"])
                )
            for name in ("class_names", "feature_names"):
                content[name] = tuple(content[name])
            form = content.get("form")
            if form is not None:
                weight = form["weight"]
                content["form"] = TableForm(
                    tuple(map(_column, form["nodes"])),
                    tuple(map(_column, form["edges"])),
                    None if weight is None else _column(weight),
                )
            facts = cls(**content)
            facts._check()
            return facts
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError(
                f"'{path}' cannot be read ({error}): the run is damaged, start it again with "
                f"`grama train --config {path.parent / 'config.yaml'}`"
            ) from error


_LARGEST = 1_000_000


def load_data(
    config: DataConfig, report: Report | None = None, *, form: TableForm | None = None
) -> GraphTaskData:
    r"""Loads a data set with its encodings; with a form, for predictions, which need no fold."""
    transforms: list[Transform] = []
    if config.local_degrees:
        transforms.append(LocalDegreeProfile())
    if config.rwse:
        transforms.append(RWSE(config.rwse))
    if config.lap_pe:
        transforms.append(LapPE(config.lap_pe))
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list | tuple) else value
        for name, value in config.options.items()
    }
    for name in {"name", "root", "transforms", "report"}.intersection(options):
        raise ConfigError(f"There is no option '{name}' of a data set (got 'data.options.{name}')")
    try:
        data = load(
            config.name, config.root, transforms=transforms, report=report, form=form, **options
        )
    except ValueError as error:
        # what the readers raise of their own accord is a sentence already
        if type(error) is ValueError:
            raise ConfigError(str(error)) from error
        raise
    count = len(data.folds)
    if form is not None:
        return data
    if count == 0:
        raise ConfigError(f"Expected labels in '{data.name}' (its labels were not read)")
    if config.fold >= count:
        raise ConfigError(
            f"Expected 'data.fold' to be {'0' if count == 1 else f'between 0 and {count - 1}'}: "
            f"'{data.name}' has {format_count(count, 'fold')} (got {config.fold})"
        )
    return data


def _stated(column: Column) -> dict[str, object]:
    """What differs from the defaults: a table may have very many columns."""
    plain = Column(column.name)
    return {
        name: value
        for name, value in vars(column).items()
        if name == "name" or value != getattr(plain, name)
    }


def _column(stated: dict[str, Any]) -> Column:
    return Column(**stated | {"values": tuple(stated.get("values", ()))})


def mean_nodes(data: GraphTaskData) -> float:
    if isinstance(data.graphs, CompactGraphs):
        return float(data.graphs.num_nodes.mean())
    counts = [int(graph.num_nodes or 0) for graph in data.graphs]
    return sum(counts) / max(1, len(counts))
