"""How a metric is printed: its short name, its unit, its direction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class MetricScale:
    r"""How a metric is printed."""

    label: str  #: the short name used in tables
    higher_is_better: bool  #: the direction in which it improves
    #: what a stored value is multiplied with; 100 for shares, which are printed in percent
    factor: float
    #: decimals of a fixed-point number, or :obj:`None` for errors that span powers of ten: four
    #: decimals, and the scientific form below 0.01
    digits: int | None

    @property
    def arrow(self) -> str:
        r"""The direction in which it improves."""
        return "↑" if self.higher_is_better else "↓"

    def best(self, values: Iterable[float]) -> float | None:
        r"""The best of several values, if there is one."""
        return (max if self.higher_is_better else min)(values, default=None)

    def text(self, value: float) -> str:
        r"""Prints a value that already has the table's unit."""
        if self.digits is None:
            return f"{value:.4f}" if abs(value) >= 0.01 else f"{value:.2e}"
        return f"{value:.{self.digits}f}"

    def text_of_deviation(self, deviation: float, mean: float) -> str:
        r"""Prints a deviation as its mean is printed, so that the two can be compared by eye."""
        if self.digits is None and abs(mean) >= 0.01 and deviation >= 0.00005:
            return f"{deviation:.4f}"
        return self.text(deviation)

    def text_with_deviation(self, mean: float, deviation: float | None) -> str:
        r"""Prints a mean and, where there is one, its deviation."""
        if deviation is None:
            return self.text(mean)
        return f"{self.text(mean)} ± {self.text_of_deviation(deviation, mean)}"


SCALES = {
    "accuracy": MetricScale("Acc", True, 100, 2),
    "roc_auc": MetricScale("AUC", True, 100, 2),
    "average_precision": MetricScale("AP", True, 100, 2),
    "mae": MetricScale("MAE", False, 1, 4),
    "mse": MetricScale("MSE", False, 1, None),
    "log10_mse": MetricScale("log10 MSE", False, 1, 4),
    "training_ms": MetricScale("training ms", False, 1, 2),
    "inference_ms": MetricScale("inference ms", False, 1, 2),
}


def scale_of(metric: str) -> MetricScale:
    r"""Returns how a metric is printed; an unknown one in four decimals, lower being better."""
    return SCALES.get(metric, MetricScale(metric, False, 1, 4))
