"""Lets Lightning save and load checkpoints our way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytorch_lightning.plugins import CheckpointIO

from torch_grama.training.checkpoint_file import read_checkpoint, replace_checkpoint


class SafeCheckpointIO(CheckpointIO):
    r"""Whole or not at all, checked, data alone, and the previous one kept; see
    :mod:`torch_grama.training.checkpoint_file`.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        r"""Writes a checkpoint and keeps the one before."""
        replace_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        r"""Reads a checkpoint; only tensors and plain values, whatever is asked for."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        r"""Removes a checkpoint."""
        Path(path).unlink(missing_ok=True)
