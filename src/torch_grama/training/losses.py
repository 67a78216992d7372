"""What is minimised, by the kind of the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from torch_grama.datasets.task_data import GraphTaskData, Kind
from torch_grama.nn.arguments import choose

LossName = Literal["cross_entropy", "bce", "l1", "mse"]
LOSSES = {
    "cross_entropy": "one of several classes",
    "bce": "binary labels, one logit each",
    "l1": "absolute error",
    "mse": "squared error",
}


class TaskLoss(Module):
    r"""The sum of a loss over targets, and the weight it is to be divided by.

    Sum and weight come apart so that a mean over several batches or devices is the mean over all
    their targets, not the mean of their means. Missing targets (NaN) count nothing.

    Args:
        name (str): ``"cross_entropy"``, ``"bce"``, ``"l1"`` or ``"mse"``.
        class_weights (Tensor, optional): What each class counts in ``"cross_entropy"``, what a
            positive counts in ``"bce"``, label by label. (default: :obj:`None`)

    Shapes:
        - **input:** output :math:`(T, K)`, targets :math:`(T)` or :math:`(T, K)`, weights
          :math:`(T)` *(optional)*
        - **output:** sum :math:`()` and weight :math:`()`
    """

    class_weights: Tensor | None

    def __init__(self, name: LossName, class_weights: Tensor | None = None) -> None:
        super().__init__()
        choose("loss", name, LOSSES)
        if class_weights is not None and name not in ("cross_entropy", "bce"):
            raise ValueError(
                f"Expected 'class_weights' only for classes or labels (got the loss '{name}')"
            )
        self.name = name
        self.register_buffer("class_weights", class_weights, persistent=False)

    def forward(
        self, out: Tensor, y: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Returns the sum of the loss over all targets, and their weight."""
        out = out.float() if out.dtype in (torch.float16, torch.bfloat16) else out
        if self.name == "cross_entropy":
            loss = F.cross_entropy(out, y, weight=self.class_weights, reduction="none")
            counted = torch.ones_like(loss)
            if self.class_weights is not None:
                counted = self.class_weights.index_select(0, y)
        else:
            y = _align(y, out)
            counted = y.isfinite().to(out.dtype)
            loss = self._elementwise(out, torch.where(y.isfinite(), y, 0.0)) * counted
        if weight is not None:
            weight = weight.to(out.dtype).reshape(-1, *[1] * (loss.dim() - 1))
            loss, counted = loss * weight, counted * weight
        return loss.sum(), counted.sum()

    def _elementwise(self, out: Tensor, y: Tensor) -> Tensor:
        if self.name == "bce":
            return F.binary_cross_entropy_with_logits(
                out, y, pos_weight=self.class_weights, reduction="none"
            )
        return (out - y).abs() if self.name == "l1" else (out - y).square()

    def __repr__(self) -> str:
        weighted = "" if self.class_weights is None else ", weighted"
        return f"{type(self).__name__}({self.name}{weighted})"


def build_loss(
    kind: Kind,
    metric: str,
    num_outputs: int,
    name: LossName | None = None,
    class_weights: Sequence[float] | Tensor | None = None,
) -> TaskLoss:
    r"""The loss that belongs to a task: cross entropy for classes (binary for a single logit),
    binary cross entropy for labels, absolute error where the metric is ``"mae"``, and squared
    error for other quantities.

    Args:
        kind (str): Kind of the targets.
        metric (str): Name of the metric.
        num_outputs (int): Number of classes, labels or quantities.
        name (str, optional): Another loss. (default: :obj:`None`)
        class_weights (sequence of float, optional): See :class:`TaskLoss`. (default: :obj:`None`)

    Raises:
        ValueError: If the loss does not fit the task.
    """
    is_discrete = kind in ("classification", "multilabel")
    if name is None:
        if kind == "classification" and num_outputs > 1:
            name = "cross_entropy"
        elif is_discrete:
            name = "bce"
        else:
            name = "l1" if metric == "mae" else "mse"
    choose("loss", name, LOSSES)
    fits = (name == "cross_entropy" and kind == "classification" and num_outputs > 1) or (
        name == "bce"
        if kind == "multilabel" or (kind == "classification" and num_outputs == 1)
        else name in ("l1", "mse") and not is_discrete
    )
    if not fits:
        raise ValueError(
            f"Expected a 'loss' for {kind} with {num_outputs} outputs (got '{name}'); leave it out "
            "to take the one that fits"
        )
    weights = None
    if class_weights is not None:
        weights = torch.as_tensor(class_weights, dtype=torch.float)
        if weights.size() != (num_outputs,) or not bool((weights >= 0).all()):
            raise ValueError(
                f"Expected 'class_weights' to be {num_outputs} numbers from 0 on, one an output "
                f"(got {weights.tolist()})"
            )
    return TaskLoss(name, weights)


def balanced_class_weights(data: GraphTaskData, fold: int = 0) -> Tensor:
    r"""Weights that let every class count the same in training: :math:`T / (C \, T_c)` with
    :math:`T_c` of :math:`T` training targets in class :math:`c` of :math:`C`.

    Args:
        data (GraphTaskData): A classification task.
        fold (int, optional): Which division. (default: :obj:`0`)

    Raises:
        ValueError: If it is another kind of task.
    """
    if data.kind != "classification" or data.num_outputs < 2:
        raise ValueError(
            f"Expected a classification task of two classes or more to weigh classes (got "
            f"{data.kind} with {data.num_outputs} outputs)"
        )
    part = data.folds[fold].train
    if part.dtype == torch.bool:
        labels = data.graphs[0]["y"][part]
    else:
        labels = torch.cat([data.graphs[int(number)]["y"].reshape(-1) for number in part])
    counts = torch.bincount(labels, minlength=data.num_outputs).float()
    return torch.where(counts > 0, counts.sum() / (data.num_outputs * counts.clamp(min=1)), 0.0)


def _align(y: Tensor, out: Tensor) -> Tensor:
    """Targets in the shape of the output; [T] stands for [T, 1], never for a row."""
    y = y.to(out.dtype)
    if y.dim() == 1 and out.dim() == 2 and out.size(1) == 1:
        y = y.unsqueeze(1)
    if y.size() != out.size():
        raise ValueError(
            f"Expected an output of the shape of the targets {list(y.size())} (got "
            f"{list(out.size())})"
        )
    return y
