"""All errors of a model that its predictions and targets tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from torch_grama.analysis.model_input import ModelInput, read_input
from torch_grama.analysis.prediction_errors import (
    ClassErrors,
    DistanceErrors,
    LabelErrors,
    RegressionErrors,
    class_errors,
    errors_by_distance,
    guess_classes,
    label_errors,
    regression_errors,
)

Kind = Literal["classification", "multilabel", "regression", "forecast"]


@dataclass(frozen=True, eq=False)
class Predictions:
    r"""What a model said and what is true, one row a node or a graph.

    Attributes:
        kind: ``"classification"``, ``"multilabel"``, ``"regression"`` or ``"forecast"``.
        prediction: Scores ``[M, K]`` or quantities.
        target: Classes ``[M]``, or labels or quantities ``[M, K]``.
        evaluated: Which rows count ``[M]``, boolean, such as those of the validation split;
            :obj:`None` for all.
        anchors: Nodes from which distance is counted ``[M]``, boolean, such as those of the
            training split or the source of a transfer; :obj:`None` for no errors by distance.
    """

    kind: Kind
    prediction: Tensor
    target: Tensor
    evaluated: Tensor | None = None
    anchors: Tensor | None = None


@dataclass(frozen=True)
class ErrorSummary:
    r"""Errors of one model; what does not fit its task is :obj:`None`.

    Attributes:
        kind: The kind of task.
        classes: Confusion matrix, for a classification.
        labels: Right and wrong answers of each label, for several labels.
        regression: Errors and pairs of prediction and target, for quantities.
        by_distance: Mean error of nodes by distance from the anchors: the share of wrong classes
            or labels, or the mean absolute error.
    """

    kind: str
    classes: ClassErrors | None
    labels: LabelErrors | None
    regression: RegressionErrors | None
    by_distance: DistanceErrors | None


def summarize_errors(
    predictions: Predictions, graphs: Sequence[ModelInput], max_examples: int, seed: int
) -> ErrorSummary:
    r"""Computes the errors that belong to the kind of task.

    Args:
        predictions (Predictions): What the model said and what is true.
        graphs (sequence of ModelInput): The graphs, whose nodes in this order are the rows where
            errors by distance are asked for.
        max_examples (int): Pairs of prediction and target to keep of a regression.
        seed (int): Seed of their choice.

    Raises:
        ValueError: If the kind is unknown, or a shape does not fit.
    """
    kinds = ("classification", "multilabel", "regression", "forecast")
    kind, prediction, target = predictions.kind, predictions.prediction, predictions.target
    if kind not in kinds:
        raise ValueError(f"Expected 'kind' to be one of {', '.join(kinds)} (got {kind!r})")
    if kind != "classification" and prediction.shape != target.shape:
        target = target.reshape(prediction.shape)
    # the numbers are few: all meet on the CPU, wherever the graphs are
    prediction, target = prediction.detach().cpu(), target.cpu()
    rows = None if predictions.evaluated is None else predictions.evaluated.cpu()
    some = (prediction, target) if rows is None else (prediction[rows], target[rows])
    by_distance = None
    if predictions.anchors is not None:
        joined = read_input(list(graphs))
        if joined.num_nodes != len(prediction):
            raise ValueError(
                f"Expected one prediction a node for errors by distance "
                f"(got {len(prediction)} for {joined.num_nodes} nodes)"
            )
        by_distance = errors_by_distance(
            _error_of_rows(kind, prediction, target),
            joined.edge_index.cpu(),
            predictions.anchors.cpu(),
            rows,
        )
    is_quantity = kind in ("regression", "forecast")
    return ErrorSummary(
        kind=kind,
        classes=class_errors(*some) if kind == "classification" else None,
        labels=label_errors(*some) if kind == "multilabel" else None,
        regression=(
            regression_errors(*some, max_examples=max_examples, seed=seed) if is_quantity else None
        ),
        by_distance=by_distance,
    )


def _error_of_rows(kind: Kind, prediction: Tensor, target: Tensor) -> Tensor:
    if kind == "classification":
        return (guess_classes(prediction) != target.flatten()).double()
    if kind == "multilabel":
        known = ~torch.isnan(target.double())
        wrong = ((prediction > 0) != (target > 0.5)) & known
        return wrong.flatten(1).double().sum(1) / known.flatten(1).sum(1).clamp(min=1)
    return (prediction - target).double().abs().reshape(len(target), -1).mean(1)
