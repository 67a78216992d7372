"""What a task is trained by and what it is judged by: losses and metrics over all targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torchmetrics import Metric as TorchMetric
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from torch_grama.datasets.entry import METRICS
from torch_grama.datasets.task_data import GraphTaskData, Kind
from torch_grama.nn.arguments import choose
from torch_grama.training.graph_batch import training_values

LossName = Literal["cross_entropy", "bce", "l1", "mse"]


class TaskLoss(Module):
    r"""The sum of a loss over targets, and the weight it is to be divided by.

    Sum and weight come apart so that a mean over several batches or devices is the mean over all
    their targets, not the mean of their means. Missing targets (NaN) count nothing. Class weights
    say what each class counts in ``"cross_entropy"``, and what a positive counts in ``"bce"``,
    label by label. Outputs are :math:`(T, K)`, targets :math:`(T)` or :math:`(T, K)`.
    """

    class_weights: Tensor | None

    def __init__(self, name: LossName, class_weights: Tensor | None = None) -> None:
        super().__init__()
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
            y = torch.where(y.isfinite(), y, 0.0)
            if self.name == "bce":
                loss = F.binary_cross_entropy_with_logits(
                    out, y, pos_weight=self.class_weights, reduction="none"
                )
            else:
                loss = (out - y).abs() if self.name == "l1" else (out - y).square()
            loss = loss * counted
        return _sum_weighed(loss, counted, weight)

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
    fitting: tuple[LossName, ...] = ("l1", "mse") if metric == "mae" else ("mse", "l1")
    if kind in ("classification", "multilabel"):
        fitting = ("cross_entropy" if kind == "classification" and num_outputs > 1 else "bce",)
    name = name or fitting[0]
    choose("loss", name, dict.fromkeys(get_args(LossName)))
    if name not in fitting:
        raise ValueError(
            f"Expected a 'loss' for {kind} with {num_outputs} outputs (got '{name}'); leave it out "
            "to take the one that fits"
        )
    weights = None
    if class_weights is not None:
        weights = torch.as_tensor(class_weights, dtype=torch.float)
        if weights.size() != (num_outputs,) or not bool((weights >= 0).all()):
            raise ValueError(
                f"Expected 'class_weights' to be {num_outputs} numbers from 0 on, one per output "
                f"(got {weights.tolist()})"
            )
    return TaskLoss(name, weights)


def balanced_class_weights(data: GraphTaskData, fold: int = 0) -> Tensor:
    r"""Weights that let every class count the same in training: :math:`T / (C \, T_c)` with
    :math:`T_c` of :math:`T` training targets in class :math:`c` of :math:`C`.

    Args:
        data (GraphTaskData): A classification task.
        fold (int, optional): Which fold. (default: :obj:`0`)

    Raises:
        ValueError: If it is another kind of task.
    """
    if data.kind != "classification" or data.num_outputs < 2:
        raise ValueError(
            f"Expected a classification task of two classes or more to weigh classes (got "
            f"{data.kind} with {data.num_outputs} outputs)"
        )
    labels = training_values(data, fold, "y").reshape(-1)
    counts = torch.bincount(labels, minlength=data.num_outputs).float()
    return torch.where(counts > 0, counts.sum() / (data.num_outputs * counts.clamp(min=1)), 0.0)


def _sum_weighed(values: Tensor, counted: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum of values of targets, and of what they count, each times the weight of its row."""
    if weight is not None:
        weight = weight.to(values.dtype).reshape(-1, *[1] * (values.dim() - 1))
        values, counted = values * weight, counted * weight
    return values.sum(), counted.sum()


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


_RANKING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "roc_auc": binary_auroc,
    "average_precision": binary_average_precision,
}


class MeanMetric(TorchMetric):
    r"""A weighted mean over all targets: accuracy, absolute or squared error, and its log10.

    Missing targets (NaN) count nothing. With no target at all the value is NaN.
    """

    full_state_update = False
    total: Tensor
    weight: Tensor

    def __init__(self, name: str, kind: Kind) -> None:
        super().__init__()
        self.name = name
        self.kind = kind
        self.error = TaskLoss("l1" if name == "mae" else "mse")
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, out: Tensor, y: Tensor, weight: Tensor | None = None) -> None:
        r"""Takes in the outputs :math:`(T, K)` of some targets."""
        if self.name != "accuracy":
            total, counted = self.error(out.double(), y, weight)
        elif self.kind == "classification" and out.size(-1) > 1:
            score = (out.argmax(dim=-1) == y).double()
            total, counted = _sum_weighed(score, torch.ones_like(score), weight)
        else:
            y = y.double().reshape(out.size())
            known = y.isfinite().double()
            total, counted = _sum_weighed(((out > 0) == (y > 0.5)) * known, known, weight)
        self.total += total
        self.weight += counted

    def compute(self) -> Tensor:
        mean = self.total / self.weight
        return mean.log10() if self.name == "log10_mse" else mean


class RankingMetric(TorchMetric):
    r"""Area under the ROC curve or average precision, label by label, then their plain mean.

    All scores of a split are ranked together. Missing labels (NaN) are dropped and labels with a
    single class in the split skipped, as in the peptide and molecule benchmarks; with no label
    left the value is NaN. Two classes are ranked by the score of class 1 over that of class 0,
    more by each class against the rest.
    """

    full_state_update = False
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, name: str, kind: Kind) -> None:
        super().__init__()
        self.name = name
        self.kind = kind
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, out: Tensor, y: Tensor, weight: Tensor | None = None) -> None:
        r"""Takes in the outputs :math:`(T, K)` of some targets.

        A target of weight zero is left out; ranks know no other weights.
        """
        if weight is not None:
            kept = (weight > 0).nonzero().reshape(-1)
            out, y = out.index_select(0, kept), y.index_select(0, kept)
        out = out.detach().float() if out.dtype != torch.float64 else out.detach()
        if self.kind == "classification" and out.size(1) > 1:
            if out.size(1) == 2:
                scores, labels = out[:, 1:] - out[:, :1], (y == 1).float().unsqueeze(1)
            else:
                scores = out.log_softmax(dim=1)
                labels = (y.unsqueeze(1) == torch.arange(out.size(1), device=y.device)).float()
        else:
            scores, labels = out, y.float().reshape(out.size())
        self.scores.append(scores)
        self.labels.append(labels)

    def compute(self) -> Tensor:
        scores, labels = _joined(self.scores), _joined(self.labels)
        values = [
            value
            for score, label in zip(scores.unbind(1), labels.unbind(1), strict=True)
            if (value := self._rank(score, label)) is not None
        ]
        return torch.stack(values).mean() if values else scores.new_tensor(torch.nan)

    def _rank(self, score: Tensor, label: Tensor) -> Tensor | None:
        kept = label.isfinite()
        score, label = score[kept], label[kept] > 0.5
        if not 0 < int(label.sum()) < label.numel():
            return None
        # Only the order counts. Its rank lies in [0, 1), which torchmetrics takes as it is; a score
        # outside it would squeeze through a sigmoid that makes far scores equal.
        _, rank = score.unique(return_inverse=True)
        return _RANKING[self.name](rank.double() / (int(rank.max()) + 1), label.int())


def build_metric(name: str, kind: Kind, num_outputs: int) -> MeanMetric | RankingMetric:
    r"""The metric of a task, called ``update(out, y, weight)`` on the raw outputs of a model.

    Args:
        name (str): ``"accuracy"``, ``"roc_auc"``, ``"average_precision"``, ``"mae"``, ``"mse"`` or
            ``"log10_mse"``.
        kind (str): Kind of the targets.
        num_outputs (int): Number of classes, labels or quantities.

    Raises:
        ValueError: If the metric does not fit the task.
    """
    choose("metric", name, METRICS)
    is_discrete = kind in ("classification", "multilabel")
    if is_discrete != (name in ("accuracy", *_RANKING)):
        raise ValueError(
            f"Expected a metric of {'classes' if is_discrete else 'quantities'} for {kind} with "
            f"{num_outputs} outputs (got '{name}')"
        )
    return RankingMetric(name, kind) if name in _RANKING else MeanMetric(name, kind)


def _joined(parts: list[Tensor] | Tensor) -> Tensor:
    # torchmetrics hands the list itself to one process and the gathered tensor to several
    if isinstance(parts, Tensor):
        return parts
    return torch.cat(parts) if parts else torch.zeros(0, 1)
