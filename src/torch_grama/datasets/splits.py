"""Train / validation / test divisions: made once from a seed, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.task_data import Fold

Fractions = tuple[float, float, float]
DEFAULT_FRACTIONS: Fractions = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Split:
    r"""Three disjoint sets of indices, each in ascending order.

    Attributes:
        train: Indices to learn from.
        val: Indices for model selection.
        test: Indices to report on.
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]

    def to_node_fold(self, num_nodes: int) -> Fold:
        r"""Returns the division as boolean masks over the nodes of one graph."""
        masks = []
        for part in (self.train, self.val, self.test):
            mask = torch.zeros(num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(part)] = True
            masks.append(mask)
        return Fold(*masks)

    def to_graph_fold(self) -> Fold:
        r"""Returns the division as indices into a sequence of graphs."""
        return Fold(*(torch.from_numpy(part.copy()) for part in (self.train, self.val, self.test)))


def make_split(
    items: NDArray[np.int64],
    classes: NDArray[np.int64] | None = None,
    *,
    fractions: Fractions = DEFAULT_FRACTIONS,
    seed: int = 0,
    class_names: Sequence[str] = (),
    what: str = "nodes",
) -> Split:
    r"""Divides items into three sets, every class in the same proportions.

    The order within a class is that of a hash of seed and item, so the division depends on no
    random generator and is the same on every platform and with every version of numpy. The sizes
    of the three sets are the rounded fractions of the whole, and each class has within one item
    its own fractions and at least one item in each set.

    Args:
        items (ndarray): The distinct indices to divide, non-negative.
        classes (ndarray, optional): The class of each item. Without it all count as one class.
            (default: :obj:`None`)
        fractions (tuple, optional): Parts of train, validation and test; they sum to one.
            (default: :obj:`(0.6, 0.2, 0.2)`)
        seed (int, optional): Which of the many divisions. (default: :obj:`0`)
        class_names (sequence of str, optional): What the classes are called in an error.
        what (str, optional): What the items are called in an error. (default: :obj:`"nodes"`)

    Returns:
        The division.

    Raises:
        ValueError: The fractions are no fractions.
        DatasetError: There are fewer than three items, or fewer than three of a class.
    """
    check_fractions(fractions)
    items = np.asarray(items, dtype=np.int64)
    if len(items) < 3:
        raise DatasetError(
            f"Expected at least 3 {what} with a label to make a train, a validation and a test set "
            f"(got {len(items)}): add labels, or state the split in the data."
        )
    groups = np.zeros(len(items), dtype=np.int64) if classes is None else np.asarray(classes)
    order = np.lexsort((items, _hash(items, seed), groups))
    _, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
    smallest = int(counts.argmin())
    if counts[smallest] < 3:
        label = int(groups[order][first[smallest]])
        name = repr(class_names[label]) if label < len(class_names) else str(label)
        raise DatasetError(
            f"Expected at least 3 {what} of each class to split by class (got "
            f"{counts[smallest]} of class {name}): add some, merge the class with another, state "
            f"the split in the data, or ask for a split that is not stratified."
        )
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    ends = first + counts
    for start, stop, train_end, val_end in zip(
        first, ends, *_boundaries(first, ends, fractions), strict=True
    ):
        for part, chosen in zip(
            parts,
            (order[start:train_end], order[train_end:val_end], order[val_end:stop]),
            strict=True,
        ):
            part.append(items[chosen])
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


def check_fractions(fractions: Sequence[float]) -> None:
    r"""Refuses fractions that are not three positive numbers which sum to one.

    Args:
        fractions (sequence of float): Parts of train, validation and test.

    Raises:
        ValueError: They are not.
    """
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(
            f"Expected 'fractions' to be three positive numbers that sum to 1, such as "
            f"(0.6, 0.2, 0.2) (got {tuple(fractions)})"
        )


def _boundaries(
    first: NDArray[np.int64], ends: NDArray[np.int64], fractions: Fractions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where train and validation end inside each class, in positions of the sorted items."""
    sizes = []
    for fraction in (fractions[0], fractions[0] + fractions[1]):
        # Rounding the running total, not each class, keeps the sum over the classes right.
        running = np.floor(fraction * np.concatenate(([0], ends)) + 0.5).astype(np.int64)
        sizes.append(np.diff(running))
    counts = ends - first
    train_end = first + np.clip(sizes[0], 1, counts - 2)
    val_end = np.clip(first + sizes[1], train_end + 1, ends - 1)
    return train_end, val_end


def _hash(items: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 over seed and item; unsigned arithmetic wraps."""
    origin = np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    state = (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + origin
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))
