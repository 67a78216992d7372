"""The coefficients of every block while a run trains, one line per epoch."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import IO

import pytorch_lightning as pl
from torch.nn import Module

from torch_grama.analysis import CoefficientLog
from torch_grama.analysis.block_analysis import find_grama
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import COEFFICIENTS
from torch_grama.runs.safe_files import FIRST_EPOCH, count_from_one

# Lines of a file, about; a long run leaves epochs out.
_MAX_LINES = 200


class CoefficientCallback(pl.Callback):
    r"""Writes a summary of the coefficients that validation computes anyway.

    The file has one object per line: ``epoch``, and ``blocks`` with the entries of
    :class:`~torch_grama.analysis.CoefficientSummary`. Of a run of more than 200 epochs every
    second, third and so on is written. A resumed run drops the lines of epochs that it runs again.
    """

    def __init__(self, folder: Path, max_epochs: int) -> None:
        self._path = folder / COEFFICIENTS
        self._stride = -(-max_epochs // _MAX_LINES)
        self._log: CoefficientLog | None = None
        self._stream: IO[str] | None = None

    @staticmethod
    def fits(model: Module) -> bool:
        r"""Whether a model has coefficients to write."""
        return find_grama(model) is not None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            _keep_lines_before(self._path, trainer.current_epoch)
            self._stream = self._path.open("a", encoding="utf-8")
            self._log = CoefficientLog(pl_module)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._log is not None and trainer.current_epoch % self._stride == 0:
            self._log.open()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._log is None or self._stream is None:
            return
        self._log.close()
        if trainer.current_epoch % self._stride != 0:
            return
        try:
            blocks = [dataclasses.asdict(block) for block in self._log.summary()]
        except ValueError:  # a coefficient that is no number: training will stop by itself
            return
        facts = {"epoch": trainer.current_epoch + 1, FIRST_EPOCH: 1, "blocks": blocks}
        line = json.dumps(facts, allow_nan=False)
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _keep_lines_before(path: Path, epoch: int) -> None:
    r"""Drops lines after so many epochs, and one that was cut off."""
    kept = []
    if epoch > 0 and path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                facts = count_from_one(json.loads(line), "epoch")
                if facts["epoch"] > epoch:
                    break
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            kept.append(f"{json.dumps(facts)}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(kept).encode())
