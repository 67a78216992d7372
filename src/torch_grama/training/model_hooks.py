"""What a model asks of the loop: a loss term of its own, and a look at the labels before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.training.graph_batch import GraphBatch


@runtime_checkable
class AddsLoss(Protocol):
    r"""A model with a loss term of its own, to be added to the loss of the task.

    The term is computed from the inputs, not from anything that :meth:`forward` left behind, so
    :meth:`forward` stays pure. It costs up to one more forward pass and is meant for training
    steps alone.
    """

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, *inputs: Tensor | int | None
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

    def fit_labels(self, y: Tensor, mask: Tensor, *inputs: Tensor | int | None) -> None:
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


def own_loss(model: Module, batch: GraphBatch, **keywords: Tensor) -> Tensor | None:
    r"""The loss term that a model adds to that of the task; :obj:`None` if it adds none, or the
    targets are no classes of nodes.
    """
    classes = node_classes(batch)
    if classes is None or not isinstance(model, AddsLoss):
        return None
    hook: Callable[..., Tensor | None] = model.auxiliary_loss
    return hook(*classes, *batch.inputs, **keywords)


def fit_labels(model: Module, batch: GraphBatch, **keywords: Tensor) -> None:
    r"""Lets a model start from an estimate made of the labels of a training batch, if it does."""
    classes = node_classes(batch)
    if classes is not None and isinstance(model, FitsLabels):
        hook: Callable[..., None] = model.fit_labels
        hook(*classes, *batch.inputs, **keywords)


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
