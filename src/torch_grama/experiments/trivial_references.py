"""Predictors that learn next to nothing, to be printed beside every model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree

from torch_grama.datasets.task_data import Fold, GraphTaskData
from torch_grama.training.scores import build_metric

RIDGE = 1e-3


def trivial_references(data: GraphTaskData, fold: int = 0) -> dict[str, float]:
    r"""Scores the trivial predictors that make sense for a data set.

    They are fitted on the training part (a forecast's on all that comes before the test part, since
    nothing is selected) and scored on the test part, by the data set's own metric. As for models,
    every graph of several counts the same in a regression of nodes:

    - ``constant``: the most frequent class, the mean (the median for an absolute error), or the
      share of each label;
    - ``copy``: the input feature, where it has the width of the target (regression of nodes);
    - ``degree table``: the mean target of training nodes of the same degree (regression of nodes);
    - ``zero``, ``last value`` and ``AR(n)``: for forecasts; the last is one ridge regression on the
      :math:`n` lags, shared by all nodes.
    """
    train, test = _split(data, data.folds[fold])
    metric = data.metric.name
    if data.kind in ("classification", "multilabel") and metric == "roc_auc":
        return {"constant": 0.5}
    if data.kind in ("classification", "multilabel"):
        shares = _shares(train.y, data)
        return {"constant": _score(data, shares.expand(len(test.y), -1), test)}
    if data.kind == "forecast":
        lags = test.x.size(1)
        return {
            "zero": _score(data, torch.zeros_like(test.y), test),
            "last value": _score(data, test.x[:, -1], test),
            f"AR({lags})": _score(data, _autoregress(train, test), test),
        }
    center = train.y.nanmedian(0).values if metric == "mae" else train.y.nanmean(0)
    scores = {"constant": _score(data, center.expand_as(test.y), test)}
    if data.level == "node":
        if test.x.dim() == 2 and test.x.size(1) == test.y.size(1):
            scores["copy"] = _score(data, test.x, test)
        scores["degree table"] = _score(data, _look_up_degree(train, test), test)
    return scores


class _Part(NamedTuple):
    """Of one split, a row a scored node or graph; the weight is what a row counts."""

    x: Tensor
    y: Tensor
    degrees: Tensor
    weight: Tensor


def _split(data: GraphTaskData, fold: Fold) -> tuple[_Part, _Part]:
    if fold.train.dtype == torch.bool:
        graph = data.graphs[0]
        return _rows(graph, fold.train, data), _rows(graph, fold.test, data)
    known = torch.cat([fold.train, fold.val]) if data.kind == "forecast" else fold.train
    train, test = (
        zip(*(_rows(data.graphs[number], None, data) for number in part.tolist()), strict=True)
        for part in (known, fold.test)
    )
    return _Part(*map(torch.cat, train)), _Part(*map(torch.cat, test))


def _rows(graph: Data, mask: Tensor | None, data: GraphTaskData) -> _Part:
    x, y = graph["x"], graph["y"]
    y = y if data.kind == "classification" else y.double()
    if data.level == "graph":
        weight = torch.full((len(y),), 1 / len(y))
        return _Part(torch.zeros(1, 1).double(), y, torch.zeros(1).long(), weight)
    degrees = degree(graph["edge_index"][1], graph.num_nodes, dtype=torch.long)
    chosen = torch.ones(int(graph.num_nodes or 0), dtype=torch.bool) if mask is None else mask
    if getattr(graph, "label_mask", None) is not None:
        chosen = chosen & graph.label_mask
    count = int(chosen.sum())
    weight = torch.full((count,), 1 / max(count, 1) if mask is None else 1.0)
    return _Part(x[chosen].double(), y[chosen], degrees[chosen], weight)


def _shares(y: Tensor, data: GraphTaskData) -> Tensor:
    """How often each class occurs, or by how much a label holds more often than not."""
    if data.kind == "classification" and data.num_outputs > 1:
        return torch.bincount(y.long(), minlength=data.num_outputs).double()
    y = y.reshape(len(y), -1)
    return (y == 1).double().sum(0) / (~y.isnan()).sum(0).clamp(min=1) - 0.5


def _autoregress(train: _Part, test: _Part) -> Tensor:
    def design(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.cat([flat, flat.new_ones(flat.size(0), 1)], dim=1)

    inputs = design(train.x)
    gram = inputs.T @ inputs + RIDGE * torch.eye(inputs.size(1), dtype=inputs.dtype)
    weights: Tensor = torch.linalg.solve(gram, inputs.T @ train.y)
    return design(test.x) @ weights


def _look_up_degree(train: _Part, test: _Part) -> Tensor:
    size = int(max(train.degrees.max(), test.degrees.max())) + 1
    empty, known = train.y.new_zeros(size, train.y.size(1)), ~train.y.isnan()
    total = empty.index_add(0, train.degrees, train.y.where(known, 0.0))
    count = empty.index_add(0, train.degrees, known.double())
    table = torch.where(count > 0, total / count.clamp(min=1), train.y.nanmean(0))
    return table[test.degrees]


def _score(data: GraphTaskData, prediction: Tensor, test: _Part) -> float:
    measured = build_metric(data.metric.name, data.kind, data.num_outputs)
    is_discrete = data.kind in ("classification", "multilabel")
    measured.update(prediction, test.y, None if is_discrete else test.weight)
    return float(measured.compute())
