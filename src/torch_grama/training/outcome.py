"""What came of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

StopReason = Literal["max_epochs", "patience", "min_lr", "signal"]


@dataclass(frozen=True)
class FitOutcome:
    r"""What came of :func:`~torch_grama.training.fit`.

    Attributes:
        stop_reason: ``"max_epochs"``, ``"patience"`` (validation stopped improving), ``"min_lr"``
            (a plateau schedule came to its end) or ``"signal"`` (interrupted, to be resumed).
        metric: Name of the metric.
        best_value: Its best value on validation; NaN if it never was a number.
        best_epoch: The epoch of that value, from 1 on; 0 if there is none.
        epochs: Epochs done, those before an interruption included.
        seconds: Time spent training, likewise.
        last_checkpoint: The state to resume from.
        best_checkpoint: The weights of the best epoch; the task has them.
        metrics_file: One row per epoch.
        signal: Number of the signal that came, if one did: it interrupted the run, or came in the
            last epoch of one that is finished.
        resumed_from: The checkpoint the run went on from, if it did.
        notes: What the user should know, one sentence each.
        changes: What was changed when the run was resumed, likewise.
    """

    stop_reason: StopReason
    metric: str
    best_value: float
    best_epoch: int
    epochs: int
    seconds: float
    last_checkpoint: Path
    best_checkpoint: Path
    metrics_file: Path
    signal: int | None = None
    resumed_from: Path | None = None
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def is_finished(self) -> bool:
        r"""Whether the run came to its end."""
        return self.stop_reason != "signal"

    @property
    def exit_code(self) -> int:
        r"""What a command exits with: 0, or 128 plus the number of the signal."""
        return 0 if self.signal is None else 128 + self.signal


@dataclass
class Selection:
    r"""The best epoch so far.

    Attributes:
        higher_is_better: The direction of the metric.
        value: The best value; NaN before the first.
        epoch: Its epoch; 0 before the first.
    """

    higher_is_better: bool
    value: float = math.nan
    epoch: int = 0

    def offer(self, value: float, epoch: int) -> bool:
        r"""Takes a value, and tells whether it is the best so far."""
        if math.isnan(value):
            return False
        better = value > self.value if self.higher_is_better else value < self.value
        if math.isnan(self.value) or better:
            self.value, self.epoch = value, epoch
            return True
        return False
