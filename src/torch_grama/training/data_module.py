"""Hands a data set to the training loop, and to nobody its test part."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Literal, cast

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset
from torch_geometric.data import Data

from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.task_data import Fold, GraphTaskData
from torch_grama.nn.arguments import choose
from torch_grama.training.graph_batch import GraphBatch, batch_of_one
from torch_grama.training.loaders import (
    BatchPlan,
    BatchSource,
    EpochLoader,
    FixedBatches,
    GraphBatches,
    PlannedBatch,
    PlannedBatches,
)
from torch_grama.training.subgraphs import SubgraphBatches
from torch_grama.training.trainer_settings import TrainerSettings

Split = Literal["train", "val", "test"]
# Fixed draws of subgraphs for evaluation; training epochs count from 0.
_EVALUATION_EPOCH = 2**40


class GraphDataModule(pl.LightningDataModule):
    r"""Training and validation batches of one fold of a data set.

    The test part is gone before anything else happens, see
    :func:`without_test`; :func:`evaluation_loader` alone reads
    it. A single graph is moved to the device once and handed out as it is, every epoch.

    Args:
        data (GraphTaskData): The data set.
        fold (int, optional): Which fold. (default: :obj:`0`)
        settings (TrainerSettings, optional): Loader, batch size, seed and so on.
            (default: :obj:`TrainerSettings()`)

    Raises:
        ValueError: If the fold does not exist, has an empty part, or the loader does not fit.
    """

    def __init__(
        self, data: GraphTaskData, fold: int = 0, settings: TrainerSettings | None = None
    ) -> None:
        super().__init__()
        self.settings = settings or TrainerSettings()
        self.fold = fold
        self.data = without_test(data, fold)
        self.loader = choose_loader(self.data, self.settings)
        if self.loader == "full" and self.settings.devices > 1:
            raise ValueError(
                f"Expected mini-batches for {self.settings.devices} devices, one whole graph "
                "cannot be shared out (got loader='full'); set trainer.devices to 1 or "
                "trainer.loader to 'subgraphs'"
            )
        self._sources: dict[str, BatchSource] = {}
        self._planned: dict[str, PlannedBatches] = {}

    @property
    def steps_per_epoch(self) -> int:
        r"""Optimiser steps per epoch."""
        return len(self.source("train"))

    def example(self) -> GraphBatch:
        r"""The first training batch of the first epoch."""
        batch: GraphBatch = next(iter(self.source("train").batches(0, 0)))
        return batch

    def source(self, split: Literal["train", "val"]) -> BatchSource:
        r"""Where the batches of a part come from, for this process."""
        world = (0, 1)
        if self.trainer is not None:
            world = (self.trainer.global_rank, self.trainer.world_size)
        key = f"{split} {world}"
        if key not in self._sources:
            part = getattr(self.data.folds[0], split)
            self._sources[key] = _build_source(
                self.data, part, self.settings, training=split == "train", world=world
            )
        source = self._sources[key]
        if self.trainer is not None and isinstance(source, GraphBatches):
            source.place(self.trainer.strategy.root_device)
        return source

    def plan(self, split: Literal["train", "val"], batches: PlannedBatches) -> None:
        r"""Hands out plans of batches in place of batches, for steps that are recorded."""
        self._planned[split] = batches

    def train_dataloader(self) -> EpochLoader:
        r"""The training batches of the trainer's current epoch."""
        source = self._planned.get("train", self.source("train"))
        return EpochLoader(source, lambda: self.trainer.current_epoch if self.trainer else 0)

    def val_dataloader(self) -> EpochLoader:
        r"""The validation batches, the same every epoch."""
        return EpochLoader(self._planned.get("val", self.source("val")))

    def transfer_batch_to_device(
        self, batch: GraphBatch | PlannedBatch, device: torch.device, dataloader_idx: int
    ) -> GraphBatch | PlannedBatch:
        r"""Moves a batch; one that is handed out every epoch stays there."""
        if isinstance(batch, PlannedBatch):
            return batch
        if batch.x.device != device:
            for source in self._sources.values():
                moved = source.move(batch, device) if isinstance(source, FixedBatches) else None
                if moved is not None:
                    return moved
        return batch.to(device)

    def teardown(self, stage: str) -> None:
        r"""Frees what was read of the graphs, on the device too."""
        self._planned.clear()
        for source in self._sources.values():
            if isinstance(source, GraphBatches):
                source.release()

    def __getstate__(self) -> dict[str, object]:
        # each process of several reads the graphs itself: what was read of them does not travel
        return {**self.__dict__, "_sources": {}, "_planned": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data.name}, fold={self.fold}, loader={self.loader})"

    # Lightning's own asks every loader for its length, those that do not exist included
    __str__ = __repr__


def evaluation_loader(
    data: GraphTaskData,
    fold: int = 0,
    split: Split = "test",
    settings: TrainerSettings | None = None,
) -> EpochLoader:
    r"""The batches of one part of a fold, the test part included.

    Args:
        data (GraphTaskData): The data set.
        fold (int, optional): Which fold. (default: :obj:`0`)
        split (str, optional): ``"train"``, ``"val"`` or ``"test"``. (default: :obj:`"test"`)
        settings (TrainerSettings, optional): Loader and batch size.
            (default: :obj:`TrainerSettings()`)
    """
    part = getattr(choose_fold(data, fold), choose("split", split, {s: s for s in PARTS}))
    return EpochLoader(_build_source(data, part, settings or TrainerSettings()))


def prediction_loader(data: GraphTaskData, settings: TrainerSettings | None = None) -> EpochLoader:
    r"""The batches of a whole data set, without targets: every node of a single graph, or every
    graph, in order.

    Args:
        data (GraphTaskData): The data set; targets and folds are not read.
        settings (TrainerSettings, optional): Loader and batch size.
            (default: :obj:`TrainerSettings()`)
    """
    if len(data.graphs) == 1 and data.level == "node":
        part = torch.ones(data.graphs[0]["x"].size(0), dtype=torch.bool)
    else:
        part = torch.arange(len(data.graphs))
    return EpochLoader(_build_source(data, part, settings or TrainerSettings(), targets=False))


def choose_loader(
    data: GraphTaskData, settings: TrainerSettings
) -> Literal["full", "graphs", "subgraphs"]:
    r"""Which loader a data set gets; raises where the one asked for does not fit."""
    one_graph = _is_masked(data.folds[0])
    if settings.loader == "auto":
        return "full" if one_graph else "graphs"
    if (settings.loader == "graphs") == one_graph:
        have = "one graph" if one_graph else f"{len(data.graphs)} graphs"
        raise ValueError(
            f"Expected a 'trainer.loader' for {have} (got '{settings.loader}'); set it to 'auto'"
        )
    return settings.loader


def _build_source(
    data: GraphTaskData,
    part: Tensor,
    settings: TrainerSettings,
    *,
    training: bool = False,
    world: tuple[int, int] = (0, 1),
    targets: bool = True,
) -> BatchSource:
    size, seed = settings.batch_size, settings.seed
    if part.dtype != torch.bool:
        shuffle = data.kind != "forecast" if settings.shuffle is None else settings.shuffle
        return GraphBatches(
            data.graphs,
            part,
            data.level,
            BatchPlan(len(part), size, seed, training and shuffle, *world),
            each_graph_counts=data.level == "node" and data.kind in ("regression", "forecast"),
            targets=targets,
            num_workers=settings.num_workers,
        )
    graph = data.graphs[0]
    draws = training or settings.subgraph_evaluation == "subgraphs"
    if settings.loader != "subgraphs" or not draws:
        return FixedBatches([batch_of_one(graph, part if targets else None)])
    if targets and graph.get("label_mask") is not None:
        part = part & graph["label_mask"]
    starts = part.nonzero().reshape(-1)
    return SubgraphBatches(
        graph,
        starts,
        BatchPlan(len(starts), size, seed, training and settings.shuffle is not False, *world),
        settings.num_neighbors,
        sampler=settings.subgraph_sampler,
        targets=targets,
        fixed_epoch=None if training else _EVALUATION_EPOCH,
    )


def without_test(data: GraphTaskData, fold: int) -> GraphTaskData:
    r"""A copy of a data set with one fold of two parts, and no target of any test sample.

    Graphs that are neither for training nor for validation are left out. Of a single graph, the
    nodes stay, for they carry messages, and their targets are overwritten.
    """
    chosen = choose_fold(data, fold)
    for name in ("train", "val"):
        part: Tensor = getattr(chosen, name)
        if not (bool(part.any()) if part.dtype == torch.bool else part.numel()):
            raise ValueError(f"Expected samples in the '{name}' part of '{data.name}' (got none)")
    if _is_masked(chosen):
        hidden = ~(chosen.train | chosen.val)
        graph = copy.copy(data.graphs[0])
        y = graph["y"].clone()
        y[hidden] = torch.nan if y.is_floating_point() else -1
        graph["y"] = y
        visible = Fold(chosen.train, chosen.val, torch.zeros_like(chosen.test))
        return dataclasses.replace(data, graphs=[graph], folds=[visible], node_names=())
    kept = torch.cat([chosen.train, chosen.val])
    numbers = torch.arange(len(kept))
    size = len(chosen.train)
    visible = Fold(numbers[:size], numbers[size:], numbers[:0])
    # looked up when asked for
    graphs = cast(Sequence[Data], Subset(cast(Dataset[Data], data.graphs), kept.tolist()))
    return dataclasses.replace(data, graphs=graphs, folds=[visible])


def choose_fold(data: GraphTaskData, fold: int) -> Fold:
    if not 0 <= fold < len(data.folds):
        raise ValueError(
            f"Expected 'fold' to lie from 0 to {len(data.folds) - 1}, '{data.name}' has "
            f"{len(data.folds)} (got {fold})"
        )
    return data.folds[fold]


def _is_masked(fold: Fold) -> bool:
    r"""Whether a fold is one of the nodes of a single graph."""
    return fold.train.dtype == torch.bool
