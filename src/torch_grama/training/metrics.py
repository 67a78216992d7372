"""The numbers that tasks are judged by, each over all targets of a split at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import Metric as TorchMetric
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from torch_grama.datasets.task_data import Kind
from torch_grama.nn.arguments import choose

METRICS = {
    "accuracy": "share of correct answers",
    "roc_auc": "area under the ROC curve, mean over labels",
    "average_precision": "average precision, mean over labels",
    "mae": "mean absolute error",
    "mse": "mean squared error",
    "log10_mse": "log10 of the mean squared error",
}
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
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, out: Tensor, y: Tensor, weight: Tensor | None = None) -> None:
        r"""Takes in the outputs :math:`(T, K)` of some targets."""
        if self.name == "accuracy" and self.kind == "classification" and out.size(-1) > 1:
            score = (out.argmax(dim=-1) == y).double()
            counted = torch.ones_like(score)
        else:
            out, y = out.double(), y.double().reshape(out.size())
            counted = y.isfinite().double()
            error = torch.where(y.isfinite(), out - y, 0.0)
            if self.name == "accuracy":
                score = ((out > 0) == (y > 0.5)).double() * counted
            else:
                score = error.abs() if self.name == "mae" else error.square()
        if weight is not None:
            weight = weight.double().reshape(-1, *[1] * (score.dim() - 1))
            score, counted = score * weight, counted * weight
        self.total += score.sum()
        self.weight += counted.sum()

    def compute(self) -> Tensor:
        r"""Returns the mean over everything taken in."""
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
        r"""Returns the mean over the labels that have both classes."""
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
