"""What a model must know of a data set, kept beside the run so that the data is not needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch_grama.datasets import (
    RWSE,
    CompactGraphs,
    FeatureEncoding,
    GraphTaskData,
    LapPE,
    LocalDegreeProfile,
    Metric,
    load,
)
from torch_grama.datasets.storage import Report
from torch_grama.datasets.task_data import Kind, Level
from torch_grama.datasets.transforms import Transform
from torch_grama.experiments.config import ConfigError, DataConfig
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError


@dataclass(frozen=True)
class DataFacts:
    r"""What decides the shape of a model.

    Attributes:
        level: Whether nodes or graphs carry the target.
        kind: The kind of target.
        metric: The metric.
        num_outputs: Number of classes, labels or targets.
        node_encoding: How node features are to be read.
        edge_encoding: How edge features are to be read.
        num_graphs: Number of graphs.
        mean_nodes: Nodes of a graph, on average.
        seq_len: Length of the sequence of node features; 0 if there is none.
        has_edge_weight: Whether edges have weights.
        pe_channels: Columns of positional encodings.
        parameter_budget: Largest number of parameters that the benchmark allows.
        class_names: What the classes or labels are called.
        feature_names: What the columns of the node features are called.
    """

    level: Level
    kind: Kind
    metric: Metric
    num_outputs: int
    node_encoding: FeatureEncoding
    edge_encoding: FeatureEncoding
    num_graphs: int
    mean_nodes: float = 0.0
    seq_len: int = 0
    has_edge_weight: bool = False
    pe_channels: int = 0
    parameter_budget: int | None = None
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: GraphTaskData) -> DataFacts:
        r"""Reads the facts off a data set.

        Args:
            data (GraphTaskData): The data set.
        """
        graph = data.graphs[0]
        encodings = (graph.get("rwse"), graph.get("lap_vectors"))
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
            pe_channels=sum(int(pe.size(1)) for pe in encodings if pe is not None),
            parameter_budget=data.parameter_budget,
            class_names=tuple(data.class_names),
            feature_names=tuple(data.feature_names),
        )

    def save(self, path: Path) -> None:
        r"""Writes them as JSON.

        Args:
            path (Path): The file.
        """
        write_atomically(path, f"{json.dumps(asdict(self), indent=2)}\n".encode())

    @classmethod
    def load(cls, path: Path) -> DataFacts:
        r"""Reads them back.

        Args:
            path (Path): The file.

        Raises:
            RunError: The file is missing or damaged.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            content["metric"] = Metric(**content["metric"])
            for name in ("node_encoding", "edge_encoding"):
                encoding = content[name]
                content[name] = FeatureEncoding(
                    encoding["kind"], encoding["num_columns"], tuple(encoding["sizes"])
                )
            for name in ("class_names", "feature_names"):
                content[name] = tuple(content[name])
            return cls(**content)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"'{path}' cannot be read ({error}): the run is damaged, start it again with "
                f"`grama train --config {path.parent / 'config.yaml'}`"
            ) from error


def load_data(
    config: DataConfig, report: Report | None = None, *, needs_fold: bool = True
) -> GraphTaskData:
    r"""Loads the data set of a configuration, with its encodings.

    Args:
        config (DataConfig): Which data.
        report (callable, optional): Told about the progress. (default: :obj:`None`)
        needs_fold (bool, optional): Whether the fold must be there; for predictions none is
            needed. (default: :obj:`True`)

    Raises:
        DatasetError: The data is not there or cannot be used.
        ConfigError: There is no such fold, or an option has a value that it cannot have.
    """
    transforms: list[Transform] = []
    if config.local_degrees:
        transforms.append(LocalDegreeProfile())
    if config.rwse:
        transforms.append(RWSE(config.rwse))
    if config.lap_pe:
        transforms.append(LapPE(config.lap_pe))
    options = {name: _as_option(value) for name, value in config.options.items()}
    try:
        data = load(config.name, config.root, transforms=transforms, report=report, **options)
    except ValueError as error:
        # what the readers raise of their own accord is a sentence already
        if type(error) is ValueError:
            raise ConfigError(str(error)) from error
        raise
    count = len(data.folds)
    if needs_fold and count == 0:
        raise ConfigError(f"Expected labels in '{data.name}' (its labels were not read)")
    if needs_fold and config.fold >= count:
        raise ConfigError(
            f"Expected 'data.fold' to be {'0' if count == 1 else f'between 0 and {count - 1}'}: "
            f"'{data.name}' has {count} fold{'s' if count > 1 else ''} (got {config.fold})"
        )
    return data


def mean_nodes(data: GraphTaskData) -> float:
    r"""Returns the number of nodes of a graph, on average.

    Args:
        data (GraphTaskData): The data set.
    """
    if isinstance(data.graphs, CompactGraphs):
        return float(data.graphs.num_nodes.mean())
    counts = [int(graph.num_nodes or 0) for graph in data.graphs]
    return sum(counts) / max(1, len(counts))


def _as_option(value: object) -> object:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
