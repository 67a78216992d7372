"""What a user may say about their own data, beyond what the files say."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from torch_grama.datasets.entry import (
    ACCURACY,
    AVERAGE_PRECISION,
    LOG10_MSE,
    MAE,
    MSE,
    ROC_AUC,
)
from torch_grama.datasets.options import OptionKind
from torch_grama.datasets.splits import DEFAULT_FRACTIONS, Fractions, check_fractions
from torch_grama.datasets.task_data import Level, Metric

OwnKind = Literal["classification", "multilabel", "regression"]

METRICS = {m.name: m for m in (ACCURACY, ROC_AUC, AVERAGE_PRECISION, MAE, MSE, LOG10_MSE)}
OPTION_KINDS: dict[str, OptionKind] = {
    **dict.fromkeys(("level", "kind", "metric"), "word"),
    **dict.fromkeys(("label", "classes", "ignore"), "words"),
    **dict.fromkeys(("directed", "categorical", "stratify", "targets"), "flag"),
    "fractions": "numbers",
    "seed": "whole",
}
"""What each option of :func:`~torch_grama.datasets.own_data.load_path` is read as."""
_DEFAULT_METRICS: dict[OwnKind, str] = {
    "classification": "accuracy",
    "multilabel": "average_precision",
    "regression": "mae",
}


@dataclass(frozen=True)
class Options:
    r"""The options of :func:`~torch_grama.datasets.own_data.load_path`, read and checked."""

    level: Level | None = None
    kind: OwnKind | None = None
    label: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    directed: bool = False
    categorical: bool = False
    metric: str | None = None
    fractions: Fractions = DEFAULT_FRACTIONS
    seed: int = 0
    stratify: bool = True
    targets: bool = True

    def __post_init__(self) -> None:
        _check_word("level", self.level, ("node", "graph"))
        _check_word("kind", self.kind, tuple(_DEFAULT_METRICS))
        _check_word("metric", self.metric, tuple(METRICS))
        check_fractions(self.fractions)
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"Expected 'classes' to be distinct (got {self.classes})")
        if self.classes and self.kind == "regression":
            raise ValueError("Expected no 'classes' for a regression; drop one of the two")

    def metric_for(self, kind: OwnKind) -> Metric:
        """Returns the metric that was asked for, or the usual one."""
        return METRICS[self.metric or _DEFAULT_METRICS[kind]]


def _check_word(option: str, word: str | None, allowed: tuple[str, ...]) -> None:
    if word is None or word in allowed:
        return
    nearest = difflib.get_close_matches(word, allowed, n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise ValueError(f"Expected '{option}' to be one of {', '.join(allowed)} (got '{word}'{hint})")
