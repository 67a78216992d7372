"""Where a model is wrong: by class, by label, by size of the target, by distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_grama.analysis._checks import check_count
from torch_grama.analysis.hops import UNREACHABLE, hop_distance
from torch_grama.analysis.plain_numbers import (
    Matrix,
    Row,
    plain_matrix,
    plain_number,
    plain_or_none,
    plain_row,
)


@dataclass(frozen=True)
class ClassErrors:
    r"""Errors of a classification.

    Attributes:
        confusion: Counts ``[K][K]``: row is the true class, column the predicted one.
        support: Number of examples of each class.
        recall: Share of a class that was found (its accuracy); :obj:`None` for an absent class.
        precision: Share of the predictions of a class that are right; :obj:`None` without any.
        accuracy: Share of all examples that is right.
        balanced_accuracy: Mean of the recalls of the classes that are present.
    """

    confusion: list[list[int]]
    support: list[int]
    recall: list[float | None]
    precision: list[float | None]
    accuracy: float
    balanced_accuracy: float


@dataclass(frozen=True)
class LabelErrors:
    r"""Errors of a task with several yes-or-no labels; entry :math:`k` belongs to label :math:`k`.

    Attributes:
        true_positive: Counts of rightly predicted yes.
        false_positive: Counts of wrongly predicted yes.
        false_negative: Counts of wrongly predicted no.
        true_negative: Counts of rightly predicted no.
    """

    true_positive: list[int]
    false_positive: list[int]
    false_negative: list[int]
    true_negative: list[int]


@dataclass(frozen=True)
class RegressionErrors:
    r"""Errors of a regression; entry :math:`k` belongs to target :math:`k`.

    Attributes:
        mae: Mean absolute error.
        rmse: Root of the mean squared error.
        r2: Share of the targets' variance that is explained; :obj:`None` for a constant target.
        predicted: Predictions ``[M][K]`` of a random part of the examples.
        true: Their targets ``[M][K]``.
        num_examples: Number of all examples.
    """

    mae: Row
    rmse: Row
    r2: list[float | None]
    predicted: Matrix
    true: Matrix
    num_examples: int


@dataclass(frozen=True)
class DistanceErrors:
    r"""Mean error of nodes by their distance from the nearest of some nodes. Entry :math:`k` of a
    list belongs to :math:`k` hops; the last entry holds everything further.

    Attributes:
        error: Mean error; :obj:`None` where there is no node.
        num_nodes: Number of nodes.
        unreachable_error: Mean error of the nodes without a path; :obj:`None` where there is none.
        num_unreachable: Their number.
    """

    error: list[float | None]
    num_nodes: list[int]
    unreachable_error: float | None
    num_unreachable: int


def class_errors(prediction: Tensor, target: Tensor) -> ClassErrors:
    r"""The confusion matrix of a classification and what follows from it.

    Args:
        prediction (Tensor): Scores of the classes ``[M, K]``, or one score ``[M, 1]`` that is
            positive for class 1 of two.
        target (Tensor): The true classes ``[M]``, int64. Negative ones are left out.

    Raises:
        ValueError: If a shape does not fit, or if a class is not among the scores.
    """
    target = target.flatten()
    num_classes = max(2, prediction.size(-1)) if prediction.dim() == 2 else 0
    if prediction.dim() != 2 or len(prediction) != len(target):
        raise ValueError(
            f"Expected 'prediction' of shape [{len(target)}, num_classes], one row a target "
            f"(got {tuple(prediction.shape)})"
        )
    if target.is_floating_point() or (len(target) and int(target.max()) >= num_classes):
        raise ValueError(
            f"Expected 'target' to hold classes below {num_classes} "
            f"(got {target.dtype} up to {float(target.max()):g})"
        )
    known = target >= 0
    guess = guess_classes(prediction)[known]
    target = target[known]
    counts = torch.bincount(target * num_classes + guess, minlength=num_classes**2)
    confusion = counts.view(num_classes, num_classes)
    hits, support, guesses = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    recall = hits / support  # 0/0, undefined, for an absent class
    present = support > 0
    return ClassErrors(
        confusion=confusion.tolist(),
        support=support.tolist(),
        recall=[plain_or_none(value) for value in recall],
        precision=[plain_or_none(value) for value in hits / guesses],
        accuracy=plain_number(hits.sum() / max(len(target), 1)),
        balanced_accuracy=plain_number(recall[present].mean() if bool(present.any()) else 0.0),
    )


def guess_classes(prediction: Tensor) -> Tensor:
    r"""The most likely class ``[M]`` for scores ``[M, K]``, or ``[M, 1]`` of the second of two."""
    if prediction.size(-1) == 1:
        return (prediction.squeeze(-1) > 0).long()
    return prediction.argmax(-1)


def label_errors(prediction: Tensor, target: Tensor) -> LabelErrors:
    r"""Right and wrong answers for every label; a positive score means yes.

    Args:
        prediction (Tensor): Scores ``[M, K]``.
        target (Tensor): Zeros and ones ``[M, K]``; undefined entries are left out.

    Raises:
        ValueError: If the shapes differ.
    """
    _check_alike(prediction, target)
    known = ~torch.isnan(target.double())
    yes, says = (target > 0.5) & known, (prediction > 0) & known
    no, denies = ~yes & known, ~says & known
    return LabelErrors(
        *(
            (one & other).flatten(1).sum(0).tolist()
            for one, other in ((yes, says), (no, says), (yes, denies), (no, denies))
        )
    )


def regression_errors(
    prediction: Tensor, target: Tensor, *, max_examples: int = 500, seed: int = 0
) -> RegressionErrors:
    r"""Errors of a regression, and predictions beside targets for a picture.

    Args:
        prediction (Tensor): Predictions ``[M, K]`` or ``[M]``.
        target (Tensor): Targets of the same shape.
        max_examples (int, optional): How many examples to keep. (default: :obj:`500`)
        seed (int, optional): Seed of their choice. (default: :obj:`0`)

    Raises:
        ValueError: If the shapes differ, or if there is no example.
    """
    check_count("max_examples", max_examples, minimum=0)
    _check_alike(prediction, target)
    if len(target) == 0:
        raise ValueError("Expected at least one example (got none)")
    prediction, target = (
        part.detach().double().reshape(len(target), -1) for part in (prediction, target)
    )
    residual = prediction - target
    spread = (target - target.mean(0)).square().mean(0)
    mse = residual.square().mean(0)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(target), generator=generator)[:max_examples].sort().values
    return RegressionErrors(
        mae=plain_row(residual.abs().mean(0)),
        rmse=plain_row(mse.sqrt()),
        r2=[
            plain_or_none(1 - m / s if s > 0 else torch.nan)
            for m, s in zip(mse, spread, strict=True)
        ],
        predicted=plain_matrix(prediction[chosen.to(prediction.device)]),
        true=plain_matrix(target[chosen.to(target.device)]),
        num_examples=len(target),
    )


def errors_by_distance(
    error: Tensor,
    edge_index: Tensor,
    anchors: Tensor,
    evaluated: Tensor | None = None,
    *,
    max_hops: int = 32,
) -> DistanceErrors:
    r"""The mean error of nodes by their distance from the nearest anchor, such as a node of the
    training set, or the source in a task that transports something.

    Paths lead from an anchor to a node along the edges, as messages do.

    Args:
        error (Tensor): The error of each node ``[N]``: 0 or 1 for a classification, any size for a
            regression.
        edge_index (Tensor): Edges ``[2, E]``, from source to target.
        anchors (Tensor): Which nodes are anchors ``[N]``, boolean.
        evaluated (Tensor, optional): Which nodes count ``[N]``, boolean. (default: all)
        max_hops (int, optional): The distance from which on nodes are put together.
            (default: :obj:`32`)

    Raises:
        ValueError: If a shape does not fit.
    """
    check_count("max_hops", max_hops, minimum=1)
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
    place = distance[~lost].clamp(max=max_hops)
    counts = torch.bincount(place)
    sums = torch.zeros(len(counts), dtype=torch.float64, device=error.device)
    sums.index_add_(0, place, error[~lost])
    return DistanceErrors(
        error=[plain_or_none(value) for value in sums / counts],
        num_nodes=counts.tolist(),
        unreachable_error=plain_or_none(error[lost].mean()),
        num_unreachable=int(lost.sum()),
    )


def _check_alike(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape or prediction.dim() == 0:
        raise ValueError(
            f"Expected 'prediction' and 'target' of one shape [num_examples, ...] "
            f"(got {tuple(prediction.shape)} and {tuple(target.shape)})"
        )
