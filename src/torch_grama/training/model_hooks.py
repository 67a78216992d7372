"""What a model asks of the loop: a loss term of its own, and a look at the labels before."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.nn.training_hooks import AddsLoss, FitsLabels
from torch_grama.training.graph_batch import GraphBatch


def own_loss(model: Module, batch: GraphBatch, **keywords: Tensor) -> Tensor | None:
    r"""The loss term that a model adds to that of the task.

    Args:
        model (Module): Any model; see :class:`~torch_grama.nn.training_hooks.AddsLoss`.
        batch (GraphBatch): The batch of the step.
        **keywords (Tensor): What else the model is called with.

    Returns:
        Tensor, optional: :obj:`None` if it adds none, or the targets are no classes of nodes.
    """
    classes = node_classes(batch)
    if classes is None or not isinstance(model, AddsLoss):
        return None
    hook: Callable[..., Tensor | None] = model.auxiliary_loss
    return hook(*classes, *_inputs(batch), **keywords)


def fit_labels(model: Module, batch: GraphBatch, **keywords: Tensor) -> None:
    r"""Lets a model start from an estimate made of the training labels, if it does.

    Args:
        model (Module): Any model; see :class:`~torch_grama.nn.training_hooks.FitsLabels`.
        batch (GraphBatch): A training batch; the whole graph, where there is one.
        **keywords (Tensor): What else the model is called with.
    """
    classes = node_classes(batch)
    if classes is not None and isinstance(model, FitsLabels):
        hook: Callable[..., None] = model.fit_labels
        hook(*classes, *_inputs(batch), **keywords)


def node_classes(batch: GraphBatch) -> tuple[Tensor, Tensor] | None:
    r"""The class of every node and whether it may be read, zero where it may not.

    Args:
        batch (GraphBatch): The batch.

    Returns:
        tuple of Tensor, optional: Classes ``[N]`` and a boolean mask ``[N]``; :obj:`None` if the
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


def _inputs(batch: GraphBatch) -> tuple[object, ...]:
    return (
        batch.x,
        batch.edge_index,
        batch.edge_weight,
        batch.edge_attr,
        batch.batch,
        batch.batch_size,
    )
