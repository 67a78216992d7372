"""Feature matrices, checked and brought into the type a model reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import Where
from torch_grama.datasets.own_data.options import Options

# Category numbers index an embedding table: a larger one is a mistake.
_MOST_CATEGORIES = 1_000_000


def check_features(
    values: NDArray[np.generic], names: tuple[str, ...], where: Where, options: Options
) -> Tensor:
    r"""Turns a feature matrix into float32, or into category numbers if the user says so.

    Args:
        values (ndarray): One row an item ``[M, F]``; a vector counts as one column.
        names (tuple of str): What the columns are called; empty for their positions.
        where (callable): Says where a row lies.
        options (Options): What the user said.

    Returns:
        float32 or int64 ``[M, F]``.

    Raises:
        DatasetError: A value is missing, infinite or no category number.
    """
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise DatasetError(
            f"{where(0)} has features that are no rows of numbers (they are {values.dtype} of the "
            f"shape {tuple(values.shape)}): store one row of numbers an item."
        )
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    for row, column in np.argwhere(~np.isfinite(floats))[:1]:
        raise DatasetError(
            f"{where(int(row))} has the value {values[row, column]} in feature "
            f"{_column(names, column)}: replace it by a finite number."
        )
    if not options.categorical:
        return torch.from_numpy(floats)
    numbers = values.astype(np.float64)
    wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= _MOST_CATEGORIES)
    for row, column in np.argwhere(wrong)[:1]:
        raise DatasetError(
            f"{where(int(row))} has the value {values[row, column]} in feature "
            f"{_column(names, column)}, which is no category number: use 0, 1, 2, ..., or do not "
            f"ask for categorical features."
        )
    return torch.from_numpy(numbers.astype(np.int64))


def check_alike(graphs: Sequence[Data], where: Where) -> None:
    r"""Refuses graphs that do not all have the same features.

    Args:
        graphs (sequence of Data): The graphs.
        where (callable): Says where a graph lies.

    Raises:
        DatasetError: A graph has other columns than the first one.
    """
    for number, graph in enumerate(graphs):
        for name in ("x", "edge_attr", "edge_weight"):
            this, first = graph.get(name), graphs[0].get(name)
            if (None if this is None else this.shape[1:]) != (
                None if first is None else first.shape[1:]
            ):
                raise DatasetError(
                    f"{where(number)} differs from {where(0)} in '{name}': give all graphs the "
                    f"same number of features."
                )


def _column(names: tuple[str, ...], column: int) -> str:
    return f"'{names[column]}'" if names else str(column)
