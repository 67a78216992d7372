"""Official divisions, brought into the form of :class:`~torch_grama.datasets.Fold`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from torch_grama.datasets.compact import Array
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.task_data import Fold

PARTS = ("train", "val", "test")


def consecutive_fold(counts: tuple[int, int, int]) -> Fold:
    r"""The division of a set that lists training, validation and test graphs one after another.

    Args:
        counts (tuple of int): Size of each part.
    """
    graphs = torch.arange(sum(counts))
    train, val, _ = counts
    return Fold(graphs[:train], graphs[train : train + val], graphs[train + val :])


def index_fold(parts: Mapping[str, Array], num_graphs: int, where: str) -> Fold:
    r"""A division by graph numbers.

    Args:
        parts (mapping): Graph numbers under the keys ``train``, ``val`` and ``test``.
        num_graphs (int): Number of graphs.
        where (str): The file it comes from, for the message.

    Raises:
        DatasetError: If a number is out of range or appears twice.
    """
    ordered = [np.asarray(parts[name], dtype=np.int64).reshape(-1) for name in PARTS]
    together = np.concatenate(ordered)
    if together.size and not 0 <= together.min() <= together.max() < num_graphs:
        raise DatasetError(
            f"Expected the split in '{where}' to number graphs from 0 to {num_graphs - 1} (got "
            f"{together.min()} to {together.max()}); fetch the file again"
        )
    if len(np.unique(together)) != len(together):
        raise DatasetError(
            f"Expected the parts of the split in '{where}' to be disjoint (got a graph twice); "
            "fetch the file again"
        )
    return Fold(*(torch.from_numpy(part.copy()) for part in ordered))


def mask_folds(
    train: Tensor, val: Tensor, test: Tensor, *, num_nodes: int, where: str
) -> list[Fold]:
    r"""One division a column of three boolean matrices ``[N, folds]``.

    Args:
        train (Tensor): Nodes to learn from.
        val (Tensor): Likewise.
        test (Tensor): Likewise.
        num_nodes (int): Number of nodes.
        where (str): The file they come from, for the message.

    Raises:
        DatasetError: If a mask has another shape or a node is in two parts.
    """
    shapes = {tuple(mask.shape) for mask in (train, val, test)}
    if len(shapes) != 1 or train.dim() != 2 or train.size(0) != num_nodes:
        raise DatasetError(
            f"Expected the masks in '{where}' to have {num_nodes} rows and one column a split (got "
            f"{sorted(shapes)}); fetch the file again"
        )
    parts = [mask.to(torch.bool) for mask in (train, val, test)]
    if bool((torch.stack(parts).sum(dim=0) > 1).any()):
        raise DatasetError(
            f"Expected the masks in '{where}' to be disjoint (got a node in two); fetch the file "
            "again"
        )
    return [Fold(*(part[:, number].clone() for part in parts)) for number in range(train.size(1))]
