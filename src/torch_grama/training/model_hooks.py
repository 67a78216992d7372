"""What a model asks of the loop, a loss term of its own and a look at the labels, and what the loop
asks of it: to look at the values of an input once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.nn import Running
from torch_grama.training.graph_batch import GraphBatch


@runtime_checkable
class AddsLoss(Protocol):
    r"""A model with a loss term of its own, to be added to the loss of the task.

    The term is computed from the inputs, not from anything that :meth:`forward` left behind, so
    :meth:`forward` stays pure. It costs up to one more forward pass and is meant for training
    steps alone.
    """

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, *inputs: Tensor | int | None, **positions: Tensor
    ) -> Tensor | None:
        r"""Returns the weighted term, a scalar, or :obj:`None` for none. Of the node classes
        :obj:`y` only those under the mask, the training nodes, are read; the arguments of
        :meth:`forward` follow.
        """
        ...


@runtime_checkable
class FitsLabels(Protocol):
    r"""A model that starts from an estimate made of the training labels.

    Called once, after the model has been built and moved to its device and before the optimiser
    takes its first step; not again when a run is resumed, since what it sets is in the state dict.
    """

    def fit_labels(
        self, y: Tensor, mask: Tensor, *inputs: Tensor | int | None, **positions: Tensor
    ) -> None:
        r"""Sets parameters from the labels; arguments as in :meth:`AddsLoss.auxiliary_loss`."""
        ...


def adds_loss(model: Module) -> bool:
    r"""Whether a model has a loss term of its own.

    A wrapper has the method in any case; it says by the attribute ``adds_loss`` whether there is
    something behind it.
    """
    return isinstance(model, AddsLoss) and getattr(model, "adds_loss", True) is True


def fits_labels(model: Module) -> bool:
    r"""Whether a model starts from an estimate made of labels; a wrapper says so by the attribute
    ``fits_labels``.
    """
    return isinstance(model, FitsLabels) and getattr(model, "fits_labels", True) is True


def node_classes(batch: GraphBatch) -> tuple[Tensor, Tensor] | None:
    r"""The class of every node ``[N]`` and whether it may be read ``[N]``; :obj:`None` if the
    targets are quantities, several labels each, or those of graphs.
    """
    y, rows = batch.y, batch.rows
    if y is None or y.is_floating_point() or y.dim() != 1:
        return None
    if rows is None:
        whole = y.size(0) == batch.num_nodes
        return (y, torch.ones_like(y, dtype=torch.bool)) if whole else None
    classes = y.new_zeros(batch.num_nodes).index_copy(0, rows, y)
    return classes, torch.zeros_like(classes, dtype=torch.bool).index_fill(0, rows, True)


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

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
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
