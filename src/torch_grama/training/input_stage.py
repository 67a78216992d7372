"""What a data set's features need before any model can read them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.inits import reset

from torch_grama.training.model_hooks import AddsLoss, FitsLabels, adds_loss, fits_labels


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
        if drop_edge_attr and (weight_as_attr or edge_encoder is not None):
            raise ValueError(
                "Expected no 'edge_encoder' and no 'weight_as_attr' beside drop_edge_attr=True: "
                "nothing would read what they make"
            )
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
        r"""Resets all learnable parameters of the module."""
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
        r"""Returns node features, edges, weights and attributes as the model gets them; arguments
        as in :meth:`forward`.
        """
        # 1. nodes: categories -> [N, F]; [N, L, C] -> [N, L C]; positions are appended
        if self.node_scale is not None:
            x = self.node_scale(x)
        if self.node_encoder is not None:
            x = self.node_encoder(x)
        if self.flatten_sequence and x.dim() == 3:
            x = x.flatten(1)
        if self.pe_encoder is not None:
            x = torch.cat([x, self._encode_positions(x, pe)], dim=-1)
        if self.input_dropout > 0:
            x = F.dropout(x, self.input_dropout, self.training)
        # 2. edges
        if self.drop_edge_attr:
            edge_attr = None
        elif edge_attr is not None and self.edge_encoder is not None:
            edge_attr = self.edge_encoder(edge_attr)
        if self.weight_as_attr:
            edge_attr, edge_weight = _append_weight(edge_attr, edge_weight), None
        elif self.drop_edge_weight:
            edge_weight = None
        return x, edge_index, edge_weight, edge_attr

    def auxiliary_loss(
        self, y: Tensor, mask: Tensor, *inputs: Any, pe: Tensor | None = None
    ) -> Tensor | None:
        r"""Returns the model's own loss term on the prepared features, or :obj:`None` if it has
        none; see :class:`~torch_grama.training.model_hooks.AddsLoss`.
        """
        if not isinstance(self.model, AddsLoss):
            return None
        # nodes and edges are prepared; batch and number of graphs follow as they are
        return self.model.auxiliary_loss(y, mask, *self.prepare(*inputs[:4], pe=pe), *inputs[4:])

    def fit_labels(self, y: Tensor, mask: Tensor, *inputs: Any, pe: Tensor | None = None) -> None:
        r"""Lets the model start from an estimate made of labels, if it can; see
        :class:`~torch_grama.training.model_hooks.FitsLabels`.
        """
        if not isinstance(self.model, FitsLabels):
            return
        was_training = self.training
        self.eval()
        with torch.no_grad():
            prepared = self.prepare(*inputs[:4], pe=pe)
        self.train(was_training)
        self.model.fit_labels(y, mask, *prepared, *inputs[4:])

    def _encode_positions(self, x: Tensor, pe: Tensor | None) -> Tensor:
        assert self.pe_encoder is not None
        if pe is None:
            raise ValueError(
                "Expected positional encodings 'pe' (the model was built with an encoder for them)"
            )
        encoded: Tensor = self.pe_encoder(pe)
        return encoded if x.dim() == 2 else encoded.unsqueeze(1).expand(-1, x.size(1), -1)

    def __repr__(self) -> str:
        parts = [repr(self.model)]
        for name in ("node_scale", "node_encoder", "edge_encoder", "pe_encoder", "output_scale"):
            if getattr(self, name) is not None:
                parts.append(f"{name}={getattr(self, name)!r}")
        if self.input_dropout > 0:
            parts.append(f"input_dropout={self.input_dropout}")
        for name in ("flatten_sequence", "drop_edge_attr", "drop_edge_weight", "weight_as_attr"):
            if getattr(self, name):
                parts.append(f"{name}=True")
        return f"{type(self).__name__}({', '.join(parts)})"


def _append_weight(edge_attr: Tensor | None, edge_weight: Tensor | None) -> Tensor:
    if edge_weight is None:
        raise ValueError("Expected 'edge_weight' (the model reads it as an edge attribute)")
    column = edge_weight.unsqueeze(-1)
    if edge_attr is None:
        return column
    return torch.cat([edge_attr, column.to(edge_attr.dtype)], dim=-1)


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
