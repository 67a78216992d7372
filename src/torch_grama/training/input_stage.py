"""What a data set's features need before any model can read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.inits import reset

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


def adds_loss(model: Module) -> bool:
    r"""Whether a model, or one in a wrapper with this attribute, has a loss term of its own."""
    return isinstance(model, AddsLoss) and getattr(model, "adds_loss", True) is True


def fits_labels(model: Module) -> bool:
    r"""Whether a model starts from an estimate made of labels; for wrappers likewise."""
    return isinstance(model, FitsLabels) and getattr(model, "fits_labels", True) is True


def node_classes(batch: GraphBatch) -> tuple[Tensor, Tensor] | None:
    r"""The class of every node and whether it may be read, ``[N]``, where nodes have one each."""
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
        self._checking = [
            module
            for module in model.modules()
            if isinstance(running := getattr(module, "running", None), Running)
            and running.check_input
        ]
        self._served = 0
        self._saw_training = False
        self._saw_validation = False

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self._served += 1

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.set(not self._saw_validation)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saw_validation = True
        self.set(not self._saw_training)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # a resumed epoch may begin in its middle
        self._saw_training |= self._served >= trainer.num_training_batches
        self._served = 0
        self.set(not self._saw_training)

    def set(self, check_input: bool) -> None:
        r"""Switches the checks on, as they were found, or off."""
        for module in self._checking:
            running = vars(module)["running"]
            vars(module)["running"] = replace(running, check_input=check_input)


def _drop(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout. On a CPU, random numbers cost more than a linear layer: bags of words, which are
    nearly all zeros, draw them for the other cells alone.
    """
    is_given = training and x.device.type == "cpu" and not x.requires_grad
    if not is_given or 8 * int(x.count_nonzero()) > x.numel():
        return F.dropout(x, p, training)
    out, cells = torch.zeros_like(x), x.nonzero(as_tuple=True)
    out[cells] = F.dropout(x[cells], p)
    return out


class InputStage(Module):
    r"""A model together with what must happen to the features of a data set first.

    The same for every model, so that a comparison is one of models: categories are embedded,
    positional encodings are encoded and join the node features, a sequence is laid side by side
    for a model that reads none, and edge features go to the place where the model looks for them:
    weights become one more attribute for a model that takes attributes alone. The output is brought
    to the units of the targets.

    Example:
        >>> from torch_grama.nn import GRAMA, CategoricalEncoder
        >>> stage = InputStage(GRAMA(16, 16, 2), node_encoder=CategoricalEncoder([5], 16))
        >>> stage(torch.tensor([[4], [0]]), torch.tensor([[0, 1], [1, 0]])).size()
        torch.Size([2, 2])
    """

    def __init__(
        self,
        model: Module,
        node_encoder: Module | None = None,
        edge_encoder: Module | None = None,
        pe_encoder: Module | None = None,
        flatten_sequence: bool = False,
        *,
        drop_edge_attr: bool = False,
        drop_edge_weight: bool = False,
        weight_as_attr: bool = False,
        input_dropout: float = 0.0,
        node_scale: Standardize | UnitRows | None = None,
        output_scale: Standardize | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= input_dropout < 1:
            raise ValueError(
                f"Expected 'input_dropout' to be at least 0 and below 1 (got {input_dropout})"
            )
        self.input_dropout = input_dropout
        self.node_scale = node_scale
        self.output_scale = output_scale
        self.node_encoder = node_encoder
        self.edge_encoder = edge_encoder
        self.pe_encoder = pe_encoder
        self.flatten_sequence = flatten_sequence
        self.drop_edge_attr = drop_edge_attr
        self.drop_edge_weight = drop_edge_weight
        self.weight_as_attr = weight_as_attr
        self.model = model
        self.adds_loss = adds_loss(model)
        self.fits_labels = fits_labels(model)

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        pe: Tensor | None = None,
    ) -> Tensor:
        r"""Prepares the features and calls the model."""
        inputs = self.prepare(x, edge_index, edge_weight, edge_attr, pe=pe)
        out: Tensor = self.model(*inputs, batch, batch_size)
        return out if self.output_scale is None else self.output_scale.invert(out)

    def prepare(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        *,
        pe: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        r"""Node features, edges, weights and attributes as the model gets them."""
        # 1. nodes: categories -> [N, F]; [N, L, C] -> [N, L C]; positions are appended
        if self.node_scale is not None:
            x = self.node_scale(x)
        if self.node_encoder is not None:
            x = self.node_encoder(x)
        if self.flatten_sequence and x.dim() == 3:
            x = x.flatten(1)
        if self.pe_encoder is not None:
            if pe is None:
                raise ValueError("Expected positional encodings 'pe' (the model has an encoder)")
            encoded: Tensor = self.pe_encoder(pe)
            if x.dim() == 3:
                encoded = encoded.unsqueeze(1).expand(-1, x.size(1), -1)
            x = torch.cat([x, encoded], dim=-1)
        if self.input_dropout > 0:
            x = _drop(x, self.input_dropout, self.training)
        # 2. edges
        if self.drop_edge_attr:
            edge_attr = None
        elif edge_attr is not None and self.edge_encoder is not None:
            edge_attr = self.edge_encoder(edge_attr)
        if self.weight_as_attr:
            if edge_weight is None:
                raise ValueError("Expected 'edge_weight' (the model reads it as an edge attribute)")
            column, edge_weight = edge_weight.unsqueeze(-1), None
            if edge_attr is not None:
                column = torch.cat([edge_attr, column.to(edge_attr.dtype)], dim=-1)
            edge_attr = column
        elif self.drop_edge_weight:
            edge_weight = None
        return x, edge_index, edge_weight, edge_attr

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, *inputs: Any, pe: Tensor | None = None
    ) -> Tensor | None:
        r"""Returns the model's own loss term on the prepared features; see :class:`AddsLoss`."""
        if not isinstance(self.model, AddsLoss):
            return None
        # nodes and edges are prepared; batch and number of graphs follow as they are
        return self.model.auxiliary_loss(y, mask, *self.prepare(*inputs[:4], pe=pe), *inputs[4:])

    def fit_labels(self, y: Tensor, mask: Tensor, *inputs: Any, pe: Tensor | None = None) -> None:
        r"""Lets the model start from an estimate made of labels; see :class:`FitsLabels`."""
        if not isinstance(self.model, FitsLabels):
            return
        was_training = self.training
        self.eval()
        with torch.no_grad():
            prepared = self.prepare(*inputs[:4], pe=pe)
        self.train(was_training)
        self.model.fit_labels(y, mask, *prepared, *inputs[4:])

    def __repr__(self) -> str:
        parts = [repr(self.model)]
        for name in ("node_scale", "node_encoder", "edge_encoder", "pe_encoder", "output_scale"):
            parts += [f"{name}={part!r}"] if (part := getattr(self, name)) is not None else []
        flags = ("flatten_sequence", "drop_edge_attr", "drop_edge_weight", "weight_as_attr")
        for name in ("input_dropout", *flags):
            parts += [f"{name}={value}"] if (value := getattr(self, name)) else []
        return f"{type(self).__name__}({', '.join(parts)})"


class Standardize(Module):
    r"""Shifts and scales columns by numbers that are measured once and kept with the weights:

    .. math::
        \mathbf{z} = (\mathbf{x} - \boldsymbol{\mu}) / \boldsymbol{\sigma}

    where :math:`\boldsymbol{\mu}` and :math:`\boldsymbol{\sigma}` are mean and deviation of each
    column of what :meth:`fit` was given. Columns of zeros and ones and columns without spread
    stay as they are, so that a rare flag is not blown up. With :obj:`by_largest`, columns are
    divided by their largest absolute value and not shifted.

    Example:
        >>> standardize = Standardize(1)
        >>> standardize.fit(torch.tensor([[10.0], [20.0], [30.0]]))
        >>> standardize(torch.tensor([[20.0], [30.0]])).flatten().tolist()
        [0.0, 1.2247449159622192]
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, channels: int, by_largest: bool = False) -> None:
        super().__init__()
        self.channels = channels
        self.by_largest = by_largest
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale

    def invert(self, z: Tensor) -> Tensor:
        r"""Takes standardised columns back to their units."""
        return z * self.scale + self.mean

    def fit(self, x: Tensor) -> None:
        r"""Measures shift and scale of columns; rows with NaN are left out."""
        x = x.double().reshape(-1, self.channels)
        x = x[x.isfinite().all(dim=1)]
        if len(x) == 0:
            return
        mean, scale = x.mean(dim=0), x.std(dim=0, correction=0)
        if self.by_largest:
            mean, scale = torch.zeros_like(mean), x.abs().amax(dim=0)
        kept = ((x == 0) | (x == 1)).all(dim=0) | (scale < 1e-12 * (1 + mean.abs()))
        self.mean.copy_(torch.where(kept, 0.0, mean))
        self.scale.copy_(torch.where(kept, 1.0, scale))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"


class UnitRows(Module):
    r"""Divides each row by its length, so that a node with many words of a text weighs as much as
    one with few; rows of zeros stay.

    Example:
        >>> UnitRows()(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)
