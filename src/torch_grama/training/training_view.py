"""A data set as the training loop may see it: without its test part."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Fold, GraphTaskData


def without_test(data: GraphTaskData, fold: int) -> GraphTaskData:
    r"""A copy of a data set with one division of two parts, and no target of any test sample.

    Graphs that are neither for training nor for validation are left out. Of a single graph, the
    nodes stay, for they carry messages, and their targets are overwritten.

    Args:
        data (GraphTaskData): The data set; it is not changed.
        fold (int): Which division.

    Raises:
        ValueError: If there is no such division, or one of the two parts is empty.
    """
    division = choose_fold(data, fold)
    for name in ("train", "val"):
        part: Tensor = getattr(division, name)
        if not (bool(part.any()) if part.dtype == torch.bool else part.numel()):
            raise ValueError(f"Expected samples in the '{name}' part of '{data.name}' (got none)")
    if is_masked(division):
        hidden = ~(division.train | division.val)
        graph = copy.copy(data.graphs[0])
        y = graph["y"].clone()
        y[hidden] = torch.nan if y.is_floating_point() else -1
        graph["y"] = y
        visible = Fold(division.train, division.val, torch.zeros_like(division.test))
        return dataclasses.replace(data, graphs=[graph], folds=[visible], node_names=())
    kept = torch.cat([division.train, division.val])
    numbers = torch.arange(len(kept))
    size = len(division.train)
    visible = Fold(numbers[:size], numbers[size:], numbers[:0])
    return dataclasses.replace(data, graphs=GraphSelection(data.graphs, kept), folds=[visible])


class GraphSelection(Sequence[Data]):
    r"""Some graphs of a sequence, looked up when asked for.

    Args:
        graphs (sequence of Data): All of them.
        numbers (Tensor): Which ones ``[G]``.
    """

    def __init__(self, graphs: Sequence[Data], numbers: Tensor) -> None:
        self._graphs = graphs
        self._numbers = numbers.tolist()

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> GraphSelection: ...
    def __getitem__(self, index: int | slice) -> Data | GraphSelection:
        if isinstance(index, slice):
            return GraphSelection(self._graphs, torch.tensor(self._numbers[index]))
        graph: Data = self._graphs[self._numbers[index]]
        return graph


def choose_fold(data: GraphTaskData, fold: int) -> Fold:
    r"""One division of a data set.

    Args:
        data (GraphTaskData): The data set.
        fold (int): From 0 on.

    Raises:
        ValueError: If there is no such division.
    """
    if not 0 <= fold < len(data.folds):
        raise ValueError(
            f"Expected 'fold' to lie from 0 to {len(data.folds) - 1}, '{data.name}' has "
            f"{len(data.folds)} (got {fold})"
        )
    return data.folds[fold]


def is_masked(fold: Fold) -> bool:
    r"""Whether a division is one of the nodes of a single graph."""
    return fold.train.dtype == torch.bool
