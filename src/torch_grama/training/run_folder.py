"""Where the files of a training run lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    r"""The folder of a run.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def last(self) -> Path:
        r"""The state to resume from."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def best(self) -> Path:
        r"""The weights of the best epoch."""
        return self.path / "checkpoints" / "best.ckpt"

    @property
    def metrics(self) -> Path:
        r"""One row an epoch."""
        return self.path / "metrics.csv"

    @property
    def board(self) -> Path:
        r"""The folder of the TensorBoard events."""
        return self.path / "tensorboard"

    def describe_last(self) -> str:
        r"""The state to resume from, in words for a message."""
        return f"'{self.last}'" if self.last.exists() else "none, it had not been written yet"
