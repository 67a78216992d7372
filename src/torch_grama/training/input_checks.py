"""Lets a model look at the values of each input once, and not again every epoch."""

from __future__ import annotations

from dataclasses import replace

import pytorch_lightning as pl
from torch.nn import Module

from torch_grama.nn import Running


class InputChecks(pl.Callback):
    r"""Switches off ``running.check_input`` of a model's modules for data that they have seen as a
    whole.

    Looking at values means to wait for the device, at the start of every step; the graphs of an
    epoch are those of the one before. Training and validation data are told apart.
    """

    def __init__(self, model: Module) -> None:
        self._checking = [module for module in model.modules() if _is_checking(module)]
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

    def switch_off(self) -> InputChecks:
        r"""Leaves the checks out until :meth:`restore`; returns itself."""
        self._set(False)
        return self

    def restore(self) -> None:
        r"""Leaves the model as it was found."""
        self._set(True)

    def _set(self, check_input: bool) -> None:
        for module in self._checking:
            running = vars(module)["running"]
            vars(module)["running"] = replace(running, check_input=check_input)


def _is_checking(module: Module) -> bool:
    running = getattr(module, "running", None)
    return isinstance(running, Running) and running.check_input
