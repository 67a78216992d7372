"""What a reader understood, and its last step to a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.own_data.labels import Labels
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.splits import Split, make_split, stored_split
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Level


@dataclass(frozen=True)
class ParsedGraphs:
    r"""Graphs and targets of one of the formats, checked."""

    path: Path  # the file or folder
    graphs: Sequence[Data]  # the graphs, without their targets
    level: Level  # whether nodes or graphs carry the targets
    labels: Labels  # the targets of all nodes of all graphs, one after the other, or of all graphs
    splits: Sequence[Split]  # the divisions that the files state; empty to have one made
    identity: str  # a fingerprint of the nodes or graphs, whatever the options are
    target: tuple[str, ...] = ("y",)  # the names under which the targets stand in the files
    notes: tuple[str, ...] = field(default=())  # what was decided while reading, one sentence each
    feature_names: tuple[str, ...] = ()  # names of the columns of ``x``
    node_names: Sequence[str] = ()  # names of the nodes of a single graph

    @property
    def splits_path(self) -> Path:
        r"""Where a division that is made is kept: beside the files."""
        if self.path.is_dir():
            return self.path / "splits.json"
        return self.path.with_name(f"{self.path.name}.splits.json")

    def to_task(self, options: Options) -> GraphTaskData:
        r"""Attaches the targets, makes missing splits and returns the data set."""
        notes = list(self.notes)
        splits = list(self.splits)
        if not options.targets:
            notes.append("Labels were not read.")
        elif not splits:
            split, note = self._make_split(options)
            splits.append(split)
            notes.append(note)
        if options.targets:
            self._attach_targets()
        single = self.level == "node" and len(self.graphs) == 1
        nodes = self.graphs[0].num_nodes or 0
        folds: list[Fold] = [
            split.to_node_fold(nodes) if single else split.to_graph_fold() for split in splits
        ]
        return GraphTaskData(
            name=str(self.path),
            graphs=self.graphs,
            folds=folds,
            level=self.level,
            kind=self.labels.kind,
            metric=options.metric_for(self.labels.kind),
            num_outputs=self.labels.num_outputs,
            node_encoding=_encoding(self.graphs, "x"),
            edge_encoding=_encoding(self.graphs, "edge_attr"),
            class_names=self.labels.class_names,
            source=f"the user's own files: {self.path}",
            licence="the user's own",
            notes=tuple(notes),
            feature_names=self.feature_names,
            node_names=self.node_names,
        )

    def _make_split(self, options: Options) -> tuple[Split, str]:
        labels = self.labels
        many_node_graphs = self.level == "node" and len(self.graphs) > 1
        classes: NDArray[np.int64] | None = None
        if many_node_graphs:
            items = np.arange(len(self.graphs))
        else:
            items = np.flatnonzero(labels.labelled)
            if labels.kind == "classification" and options.stratify:
                classes = labels.y.numpy()[items]
        what = "nodes" if self.level == "node" and not many_node_graphs else "graphs"
        parts = "/".join(str(fraction) for fraction in options.fractions)
        how = "at random" if classes is None else "by class"
        split, trouble = stored_split(
            self.splits_path,
            f"{what} by {', '.join(self.target)}, seed {options.seed}, {parts}, {how}",
            lambda: make_split(
                items,
                classes,
                fractions=options.fractions,
                seed=options.seed,
                class_names=labels.class_names,
                what=f"{what} of '{self.path}'",
            ),
            num_items=len(self.graphs) if what == "graphs" else len(labels.labelled),
            items=self.identity,
            targets=fingerprint([items] if classes is None else [items, _renumbered(classes)]),
        )
        kept = trouble or f"it is kept in '{self.splits_path}'"
        return split, f"The data states no split: one was made {how} (seed {options.seed}); {kept}."

    def _attach_targets(self) -> None:
        if self.level == "graph":
            counts = [1] * len(self.graphs)
        else:
            counts = [graph.num_nodes or 0 for graph in self.graphs]
        for graph, y in zip(self.graphs, torch.split(self.labels.y, counts), strict=True):
            graph.y = y.clone()


def _renumbered(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes numbered as they first appear: the same whatever the order of their names."""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _encoding(graphs: Sequence[Data], name: str) -> FeatureEncoding:
    if graphs[0].get(name) is None:
        return FeatureEncoding("none", 0)
    matrices = [graph[name] for graph in graphs]
    width = int(matrices[0].size(1))
    if matrices[0].dtype != torch.long:
        return FeatureEncoding("float", width)
    largest = torch.stack([matrix.amax(dim=0) for matrix in matrices if len(matrix)]).amax(dim=0)
    return FeatureEncoding("categorical", width, tuple(int(code) + 1 for code in largest))
