"""Forecasts on a fixed graph: Chickenpox Hungary, PedalMe London and Wikipedia Math."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from torch_grama.datasets.entry import Entry
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import Array, read_json, reading
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

TRAIN_RATIO = 0.9
VALIDATION_RATIO = 0.1


def load_temporal(
    entry: Entry,
    storage: Storage,
    *,
    lags: int | None = None,
    ratio: float = TRAIN_RATIO,
    validation: float = VALIDATION_RATIO,
) -> GraphTaskData:
    r"""Loads a series as one graph a time step.

    Graph :math:`i` has the values of steps :math:`i, \dots, i + \text{lags} - 1` as ``x``
    ``[N, lags, 1]``, oldest first, and those of step :math:`i + \text{lags}` as ``y`` ``[N, 1]``.
    In time order, the first ``ratio`` of the graphs are for training, of which the last
    ``validation`` validates; the rest is for the test. A tenth of a short series is a few steps,
    too few to choose settings by: take more for that, and the tenth again for the final runs.
    """
    lags = _LAGS[entry.name] if lags is None else lags
    _, (path,) = storage.obtain(entry)
    values, edges, weights = _read(path, entry.name)
    steps, num_nodes = values.shape
    count = steps - lags
    if lags < 1 or not 0 < ratio < 1 or not 0 < validation < 1 or count < 3:
        raise DatasetError(
            f"Expected 'lags' of at least 1 that leave three steps or more, and a 'ratio' and a "
            f"'validation' between 0 and 1 (got lags={lags} of {steps} steps, ratio={ratio}, "
            f"validation={validation})"
        )
    series = torch.from_numpy(values).to(torch.float)
    edge_index = torch.from_numpy(edges)
    edge_weight = torch.from_numpy(weights).to(torch.float)
    graphs = [
        Data(
            x=series[start : start + lags].t().reshape(num_nodes, lags, 1).contiguous(),
            edge_index=edge_index,
            edge_weight=edge_weight,
            y=series[start + lags].reshape(num_nodes, 1),
        )
        for start in range(count)
    ]
    train = int(ratio * count)
    val = max(1, round(validation * train))
    counts = (train - val, val, count - train)
    if min(counts) < 1:
        raise DatasetError(
            f"Expected a 'ratio' that leaves graphs in every part (got {counts} of {count})"
        )
    notes = [f"Validation is the last {val} of {train} training steps; the source has none."]
    if entry.name != "pedalme":
        notes.append("Scaling used all steps, those of the test included, as published.")
    return entry.task(
        graphs, [consecutive_fold(counts)], FeatureEncoding("float", 1), notes=tuple(notes)
    )


def _read(path: Path, name: str) -> tuple[Array, Array, Array]:
    """A series ``[T, N]`` on a weighted graph: its values, edges ``[2, E]`` and weights ``[E]``."""
    content = read_json(path, _KEYS[name])
    with reading(path, f"the file {path.name}"):
        edges = np.array(content["edges"], dtype=np.int64).T
        weights = np.array(content.get("weights", np.ones(edges.shape[-1])), dtype=np.float64)
        if name == "wikimath":
            series = _read_visits(content)
        else:
            series = np.array(content[_KEYS[name][-1]], dtype=np.float64)
    num_nodes = series.shape[1] if series.ndim == 2 else 0
    fits = (
        num_nodes > 0
        and edges.ndim == 2
        and edges.shape[0] == 2
        and weights.shape == (edges.shape[1],)
        and bool(((edges >= 0) & (edges < num_nodes)).all())
        and bool(np.isfinite(series).all())
        and bool(np.isfinite(weights).all())
    )
    if not fits:
        raise DatasetError(
            f"Expected '{path}' to hold a finite series with one column per node and edges between "
            f"those nodes (got a series of shape {series.shape}, edges of shape {edges.shape} and "
            f"weights of shape {weights.shape}); fetch it again"
        )
    return series, edges, weights


def _read_visits(content: Mapping[str, object]) -> NDArray[np.float64]:
    """The visits of every day, each article scaled to mean 0 and spread 1."""
    days = [content[str(day)] for day in range(int(str(content["time_periods"])))]
    visits = np.array([day["y"] for day in days if isinstance(day, dict)], dtype=np.float64)
    if len(visits) != len(days):
        raise ValueError(f"{len(days) - len(visits)} days without visits")
    spread = visits.std(axis=0)
    if not bool((spread > 0).all()):
        raise ValueError("an article with the same number of visits every day")
    return np.asarray((visits - visits.mean(axis=0)) / spread)


_LAGS = {"chickenpox": 4, "pedalme": 4, "wikimath": 8}
_KEYS = {
    "chickenpox": ("edges", "FX"),
    "pedalme": ("edges", "weights", "X"),
    "wikimath": ("edges", "weights", "time_periods"),
}
