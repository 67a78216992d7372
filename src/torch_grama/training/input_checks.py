"""Lets a model look at the values of each input once, and not again every epoch."""

from __future__ import annotations

import pytorch_lightning as pl
from torch.nn import Module


class InputChecks(pl.Callback):
    r"""Switches off a model's :obj:`check_input` for data that it has seen as a whole.

    Looking at values means to wait for the device, at the start of every step; the graphs of an
    epoch are those of the one before. Training and validation data are told apart.

    Args:
        model (Module): The model; those of its modules that have a true :obj:`check_input` are
            meant.
    """

    def __init__(self, model: Module) -> None:
        self._checking = [
            module for module in model.modules() if getattr(module, "check_input", None) is True
        ]
        self._served = 0
        self._saw_training = False
        self._saw_validation = False

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        self._served += 1

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._set(not self._saw_validation)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saw_validation = True
        self._set(not self._saw_training)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # a resumed epoch may begin in its middle
        self._saw_training |= self._served >= trainer.num_training_batches
        self._served = 0
        self._set(not self._saw_training)

    def restore(self) -> None:
        r"""Leaves the model as it was found."""
        self._set(True)

    def _set(self, check_input: bool) -> None:
        for module in self._checking:
            vars(module)["check_input"] = check_input
