"""Which level the targets of stored graphs belong to, and what they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.dense_tensor import as_array
from torch_grama.datasets.own_data.labels import (
    Labels,
    Where,
    labels_from_numbers,
    no_labels,
)
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.task_data import Level


def read_targets(
    stored: Sequence[object], counts: Sequence[int], where: Where, options: Options
) -> tuple[Level, Labels, Where]:
    r"""Reads the attribute ``y`` of all graphs.

    Args:
        stored (sequence): ``y`` of each graph; :obj:`None` for a graph without label.
        counts (sequence of int): The number of nodes of each graph.
        where (callable): Says where a graph lies.
        options (Options): What the user said.

    Returns:
        The level, the targets, and a function that says where an item of that level lies.

    Raises:
        DatasetError: The targets fit neither the nodes nor the graphs.
    """
    if not options.targets:
        level = options.level or _guess(False, counts)
        return level, no_labels(sum(counts) if level == "node" else len(counts), options), where
    arrays = [
        None if y is None else as_array(y, where(number), "y") for number, y in enumerate(stored)
    ]
    present = [number for number, array in enumerate(arrays) if array is not None]
    if not present:
        raise DatasetError(f"{where(0)} has no 'y': store the targets there.")
    per_node = all(
        array is None or (array.ndim > 0 and len(array) == count)
        for array, count in zip(arrays, counts, strict=True)
    )
    level = options.level or _guess(per_node, counts)
    if level == "node":
        if not per_node or len(present) < len(arrays):
            odd = next(
                number
                for number, (array, count) in enumerate(zip(arrays, counts, strict=True))
                if array is None or not array.ndim or len(array) != count
            )
            raise DatasetError(
                f"{where(odd)} has no row of 'y' for each of its {counts[odd]} nodes: store one "
                f"row a node, or ask for level 'graph'."
            )
        rows = [array for array in arrays if array is not None]
        starts = np.concatenate([[0], np.cumsum(counts)])

        def node_place(item: int) -> str:
            graph = int(np.searchsorted(starts, item, side="right")) - 1
            return f"{where(graph)}, node {item - starts[graph]}"

        _check_alike(rows, present, where)
        labels = labels_from_numbers(np.concatenate(rows), node_place, options)
        if len(counts) > 1:  # whole graphs are split, so each of their nodes is learnt from
            for item in np.flatnonzero(~labels.labelled)[:1]:
                raise DatasetError(
                    f"{node_place(int(item))} has no label: label every node where there are "
                    f"several graphs."
                )
        return "node", labels, node_place
    return "graph", labels_from_numbers(_one_row_each(arrays, where), where, options), where


def _guess(per_node: bool, counts: Sequence[int]) -> Level:
    if len(counts) == 1:
        return "node"
    return "node" if per_node and max(counts) > 1 else "graph"


def _one_row_each(
    arrays: Sequence[NDArray[np.generic] | None], where: Where
) -> NDArray[np.generic]:
    rows, numbers = [], []
    for number, array in enumerate(arrays):
        if array is None:
            continue
        row = array.reshape(1, -1)
        if array.ndim > 2 or (array.ndim == 2 and len(array) != 1) or not row.shape[1]:
            raise DatasetError(
                f"{where(number)} has 'y' of the shape {tuple(array.shape)}, which is no target of "
                f"a graph: store a number or one row, or ask for level 'node'."
            )
        rows.append(row)
        numbers.append(number)
    _check_alike(rows, numbers, where)
    joined = np.concatenate(rows)
    integers = joined.dtype.kind in "biu"
    scalar = joined.shape[1] == 1
    table = np.full((len(arrays), joined.shape[1]), np.nan)
    if integers and scalar:
        whole = np.full((len(arrays), 1), -1, dtype=np.int64)
        whole[numbers] = joined
        return whole
    table[numbers] = joined
    return table


def _check_alike(rows: Sequence[NDArray[np.generic]], numbers: Sequence[int], where: Where) -> None:
    for row, number in zip(rows, numbers, strict=True):
        if row.shape[1:] != rows[0].shape[1:] or row.dtype.kind != rows[0].dtype.kind:
            raise DatasetError(
                f"{where(number)} has 'y' of {row.dtype} with {row.shape[1:]} columns where "
                f"{where(numbers[0])} has {rows[0].dtype} with {rows[0].shape[1:]}: store the same "
                f"kind of target in all graphs."
            )
