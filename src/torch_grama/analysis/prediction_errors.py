"""Where a model is wrong: by class, by label, by size of the target, by distance.

The errors of classes, labels and quantities take torchmetrics, of the extra ``train``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, get_args

import torch
from torch import Tensor

from torch_grama.analysis.hops import UNREACHABLE, hop_distance
from torch_grama.analysis.inputs import ModelInput, read_input
from torch_grama.analysis.records import Matrix, Row, plain_matrix, plain_number, plain_or_none

# The distance from which on nodes are put together.
_MAX_HOPS = 32

# Pairs of prediction and target that are kept of a regression.
_MAX_EXAMPLES = 500

Kind = Literal["classification", "multilabel", "regression", "forecast"]


@dataclass(frozen=True)
class ClassErrors:
    r"""Errors of a classification."""

    #: counts ``[K][K]``: row is the true class, column the predicted one
    confusion: list[list[int]]
    support: list[int]  #: number of examples of each class
    #: share of a class that was found (its accuracy); None for an absent class
    recall: list[float | None]
    #: share of the predictions of a class that are right; None without any
    precision: list[float | None]
    accuracy: float  #: share of all examples that is right
    balanced_accuracy: float  #: mean of the recalls of the classes that are present


@dataclass(frozen=True)
class LabelErrors:
    r"""Errors of a task with several yes-or-no labels, one entry per label."""

    true_positive: list[int]  #: counts of rightly predicted yes
    false_positive: list[int]  #: counts of wrongly predicted yes
    false_negative: list[int]  #: counts of wrongly predicted no
    true_negative: list[int]  #: counts of rightly predicted no


@dataclass(frozen=True)
class RegressionErrors:
    r"""Errors of a regression, one entry per target."""

    mae: Row  #: mean absolute error
    rmse: Row  #: root of the mean squared error
    #: share of the targets' variance that is explained; None for a constant target
    r2: list[float | None]
    predicted: Matrix  #: predictions ``[M][K]`` of a random part of the examples
    true: Matrix  #: their targets ``[M][K]``
    num_examples: int  #: number of all examples


@dataclass(frozen=True)
class DistanceErrors:
    r"""Mean error of nodes by their distance from the nearest of some nodes. Entry :math:`k` of a
    list belongs to :math:`k` hops; the last entry holds everything further."""

    error: list[float | None]  #: mean error; None where there is no node
    num_nodes: list[int]  #: number of nodes
    #: mean error of the nodes without a path; None where there is none
    unreachable_error: float | None
    num_unreachable: int  #: their number


@dataclass(frozen=True, eq=False)
class Predictions:
    r"""What a model said and what is true, one row per node or graph."""

    kind: Kind  #: ``"classification"``, ``"multilabel"``, ``"regression"`` or ``"forecast"``
    prediction: Tensor  #: scores ``[M, K]`` or quantities
    target: Tensor  #: classes ``[M]``, or labels or quantities ``[M, K]``
    #: which rows count ``[M]``, boolean, such as those of the validation split; None for all
    evaluated: Tensor | None = None
    #: nodes from which distance is counted ``[M]``, boolean, such as those of the training split or
    #: the source of a transfer; None for no errors by distance
    anchors: Tensor | None = None


@dataclass(frozen=True)
class ErrorSummary:
    r"""Errors of one model; what does not fit its task is :obj:`None`."""

    kind: str  #: the kind of task
    classes: ClassErrors | None  #: confusion matrix, for a classification
    labels: LabelErrors | None  #: right and wrong answers of each label, for several labels
    #: errors and pairs of prediction and target, for quantities
    regression: RegressionErrors | None
    #: mean error of nodes by distance from the anchors: the share of wrong classes or labels, or
    #: the mean absolute error
    by_distance: DistanceErrors | None


def class_errors(prediction: Tensor, target: Tensor) -> ClassErrors:
    r"""The confusion matrix of a classification and what follows from it.

    Args:
        prediction (Tensor): Scores of the classes ``[M, K]``, or one score ``[M, 1]`` that is
            positive for class 1 of two.
        target (Tensor): The true classes ``[M]``, int64. Negative ones are left out.
    """
    target = target.flatten()
    if prediction.dim() != 2 or len(prediction) != len(target):
        raise ValueError(
            f"Expected 'prediction' of shape [{len(target)}, num_classes], one row per target "
            f"(got {tuple(prediction.shape)})"
        )
    num_classes = max(2, prediction.size(-1))
    if target.is_floating_point() or (len(target) and int(target.max()) >= num_classes):
        raise ValueError(
            f"Expected 'target' to hold classes below {num_classes} "
            f"(got {target.dtype} up to {float(target.max()):g})"
        )
    confusion = _torchmetrics().confusion_matrix(
        _guess_classes(prediction),
        target.clamp(min=-1),
        task="multiclass",
        num_classes=num_classes,
        ignore_index=-1,
    )
    hits, support, guesses = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    recall = hits / support  # 0/0, undefined, for an absent class
    return ClassErrors(
        confusion=confusion.tolist(),
        support=support.tolist(),
        recall=[plain_or_none(value) for value in recall],
        precision=[plain_or_none(value) for value in hits / guesses],
        accuracy=plain_number(hits.sum() / support.sum().clamp(min=1)),
        balanced_accuracy=plain_number(recall.nanmean().nan_to_num()),
    )


def label_errors(prediction: Tensor, target: Tensor) -> LabelErrors:
    r"""Right and wrong answers for every label; a positive score means yes.

    Args:
        prediction (Tensor): Scores ``[M, K]``.
        target (Tensor): Zeros and ones ``[M, K]``; undefined entries are left out.
    """
    _check_alike(prediction, target)
    says = (prediction > 0).long().flatten(1)
    true = torch.where(target.isnan(), -1, target > 0.5).long().flatten(1)
    # one row per label: true and false yes, true and false no
    count = _torchmetrics().stat_scores
    pairs = zip(says.unbind(1), true.unbind(1), strict=True)
    counts = torch.stack([count(*pair, task="binary", ignore_index=-1) for pair in pairs])
    tp, fp, tn, fn = counts[:, :4].T.tolist()
    return LabelErrors(true_positive=tp, false_positive=fp, false_negative=fn, true_negative=tn)


def regression_errors(prediction: Tensor, target: Tensor, *, seed: int = 0) -> RegressionErrors:
    r"""Errors of a regression, and predictions beside targets for a picture.

    Args:
        prediction (Tensor): Predictions ``[M, K]`` or ``[M]``.
        target (Tensor): Targets of the same shape; undefined entries are left out.
        seed (int, optional): Seed of the choice of examples to keep. (default: :obj:`0`)
    """
    _check_alike(prediction, target)
    pair = [part.detach().double().unsqueeze(-1).flatten(1) for part in (prediction, target)]
    known = ~pair[1].isnan()
    if not bool(known.any(0).all()):
        raise ValueError("Expected at least one example of every quantity (got none)")
    metrics = _torchmetrics()
    columns = [
        [values[is_known] for values in column]
        for *column, is_known in zip(*(part.unbind(1) for part in (*pair, known)), strict=True)
    ]
    complete = known.all(1).nonzero().flatten().cpu()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(complete), generator=generator)[:_MAX_EXAMPLES]
    chosen = complete[order].sort().values
    predicted, true = (plain_matrix(part[chosen.to(part.device)]) for part in pair)
    return RegressionErrors(
        mae=[plain_number(metrics.mean_absolute_error(*column)) for column in columns],
        rmse=[plain_number(metrics.mean_squared_error(*column).sqrt()) for column in columns],
        r2=[
            plain_or_none(metrics.r2_score(*column)) if len(column[1].unique()) > 1 else None
            for column in columns
        ],
        predicted=predicted,
        true=true,
        num_examples=len(target),
    )


def errors_by_distance(
    error: Tensor, edge_index: Tensor, anchors: Tensor, evaluated: Tensor | None = None
) -> DistanceErrors:
    r"""The mean error of nodes by their distance from the nearest anchor, such as a node of the
    training set. Paths lead from an anchor to a node along the edges, as messages do.

    Args:
        error (Tensor): The error of each node ``[N]``: 0 or 1 for a classification, any size for a
            regression.
        edge_index (Tensor): Edges ``[2, E]``, from source to target.
        anchors (Tensor): Which nodes are anchors ``[N]``, boolean.
        evaluated (Tensor, optional): Which nodes count ``[N]``, boolean. (default: all)
    """
    error = error.detach().double()
    if error.dim() != 1:
        raise ValueError(f"Expected 'error' of shape [num_nodes] (got {tuple(error.shape)})")
    distance = hop_distance(edge_index.flip(0), len(error), anchors)
    if evaluated is not None:
        if evaluated.dtype != torch.bool or evaluated.shape != error.shape:
            raise ValueError(
                f"Expected 'evaluated' to be boolean of shape ({len(error)},) "
                f"(got {evaluated.dtype} of shape {tuple(evaluated.shape)})"
            )
        error, distance = error[evaluated], distance[evaluated]
    lost = distance == UNREACHABLE
    place = distance[~lost].clamp(max=_MAX_HOPS)
    counts = torch.bincount(place)
    sums = torch.zeros(len(counts), dtype=torch.float64, device=error.device)
    sums.index_add_(0, place, error[~lost])
    return DistanceErrors(
        error=[plain_or_none(value) for value in sums / counts],
        num_nodes=counts.tolist(),
        unreachable_error=plain_or_none(error[lost].mean()),
        num_unreachable=int(lost.sum()),
    )


def summarize_errors(
    predictions: Predictions, graphs: Sequence[ModelInput] = (), seed: int = 0
) -> ErrorSummary:
    r"""Computes the errors that belong to the kind of task.

    Args:
        predictions (Predictions): What the model said and what is true.
        graphs (sequence of ModelInput, optional): The graphs whose nodes, in this order, are the
            rows, for errors by distance. (default: none)
        seed (int, optional): See :func:`regression_errors`. (default: :obj:`0`)
    """
    kind = predictions.kind
    if kind not in get_args(Kind):
        raise ValueError(f"Expected 'kind' to be one of {', '.join(get_args(Kind))} (got {kind!r})")
    # the numbers are few: all meet on the CPU, wherever the graphs are
    prediction, target = predictions.prediction.detach().cpu(), predictions.target.cpu()
    if kind != "classification":
        target = target.reshape(prediction.shape)
    rows = None if predictions.evaluated is None else predictions.evaluated.cpu()
    some = (prediction, target) if rows is None else (prediction[rows], target[rows])
    by_distance = None
    if predictions.anchors is not None:
        joined = read_input(list(graphs))
        if joined.num_nodes != len(prediction):
            raise ValueError(
                f"Expected one prediction per node for errors by distance "
                f"(got {len(prediction)} for {joined.num_nodes} nodes)"
            )
        errors, edges = _error_of_rows(kind, prediction, target), joined.edge_index.cpu()
        known = _known_targets(kind, target).any(1)
        judged = known if rows is None else known & rows
        by_distance = errors_by_distance(errors, edges, predictions.anchors.cpu(), judged)
    if kind == "classification":
        return ErrorSummary(kind, class_errors(*some), None, None, by_distance)
    if kind == "multilabel":
        return ErrorSummary(kind, None, label_errors(*some), None, by_distance)
    quantities = regression_errors(*some, seed=seed)
    return ErrorSummary(kind, None, None, quantities, by_distance)


def _error_of_rows(kind: Kind, prediction: Tensor, target: Tensor) -> Tensor:
    if kind == "classification":
        return (_guess_classes(prediction) != target.flatten()).double()
    known = _known_targets(kind, target)
    if kind == "multilabel":
        errors = ((prediction > 0) != (target > 0.5)).double()
    else:
        errors = (prediction - target).double().abs()
    # undefined where nothing is known
    return errors.flatten(1).where(known, 0.0).sum(1) / known.sum(1)


def _known_targets(kind: Kind, target: Tensor) -> Tensor:
    r"""Which targets ``[M, K]`` a data set states."""
    known = target >= 0 if kind == "classification" else ~target.isnan()
    return known.unsqueeze(-1).flatten(1)


def _guess_classes(prediction: Tensor) -> Tensor:
    r"""The most likely class ``[M]`` for scores ``[M, K]``, or ``[M, 1]`` of the second of two."""
    if prediction.size(-1) == 1:
        return (prediction.squeeze(-1) > 0).long()
    return prediction.argmax(-1)


def _check_alike(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape or prediction.dim() == 0:
        raise ValueError(
            f"Expected 'prediction' and 'target' of one shape [num_examples, ...] "
            f"(got {tuple(prediction.shape)} and {tuple(target.shape)})"
        )


def _torchmetrics() -> ModuleType:
    try:
        from torchmetrics import functional
    except ImportError as error:
        raise ImportError(
            "Expected torchmetrics for the errors of a model (got none): run `pip install "
            "'torch-grama[train]'`"
        ) from error
    return functional
