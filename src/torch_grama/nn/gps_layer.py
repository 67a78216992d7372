"""Local convolution plus global attention."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, MultiheadAttention, ReLU
from torch.nn.init import zeros_
from torch_geometric.nn import GINEConv, GPSConv, MessagePassing
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.attention.performer import generalized_kernel
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import choose
from torch_grama.nn.engine.sequence import count_graphs
from torch_grama.nn.graph_input import PaddedLayout
from torch_grama.nn.neighbor_convs import convolve
from torch_grama.nn.norms import NORMS, StepwiseBatchNorm

ATTENTIONS = {"multihead": "multihead", "performer": "performer"}


class GPSLayer(GPSConv):
    r"""The layer of `"Recipe for a General, Powerful, Scalable Graph Transformer"
    <https://arxiv.org/abs/2205.12454>`_ as a backbone:

    .. math::
        \mathbf{h} = \mathrm{Norm}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{Norm}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{Norm}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    With :obj:`pre_norm` the norm is applied to the input instead of the output, and the layer
    returns the update alone, without the states:

    .. math::
        \mathbf{u} = \mathrm{MPNN}(\mathrm{Norm}(\mathbf{x})) +
        \mathrm{Attention}(\mathrm{Norm}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathbf{u} + \mathrm{MLP}(\mathrm{Norm}(\mathbf{x} + \mathbf{u})).

    A recurrence adds the states itself. With the first form they are added twice, and the norm
    removes the scale of the update.

    It is PyG's :class:`~torch_geometric.nn.GPSConv` with three differences. One backbone serves all
    recurrences of a block, so the norm is a layer norm over the channels of each node, or a batch
    norm with running statistics of each recurrence. A layer norm removes how large the state of a
    node is, which sums over nodes need; a batch norm keeps it. A single graph is attended to
    without being copied into a padded batch. And the padding of a batch takes no part in linear
    attention, so that a batch gives the same result as its graphs one by one.

    Args:
        channels (int): Width of the states.
        conv (MessagePassing, optional): The local convolution, if any. (default: :obj:`None`)
        heads (int, optional): Number of attention heads. (default: the largest of 4, 2, 1 that
            divides the channels)
        dropout (float, optional): Dropout of the layer. (default: :obj:`0.0`)
        attention (str, optional): ``"multihead"``, or ``"performer"`` for large graphs, whose cost
            is linear in the number of nodes. (default: :obj:`"multihead"`)
        pre_norm (bool, optional): Whether to take the second form above. (default: :obj:`False`)
        norm (str, optional): ``"layer_norm"`` or ``"batch_norm"``. (default: :obj:`"layer_norm"`)
        num_recurrences (int, optional): How many recurrences share the layer.
            (default: :obj:`1`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`
        - **output:** node states :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        conv: MessagePassing | None = None,
        heads: int | None = None,
        dropout: float = 0.0,
        attention: str = "multihead",
        pre_norm: bool = False,
        norm: str = "layer_norm",
        num_recurrences: int = 1,
    ) -> None:
        if heads is None:
            heads = next(h for h in (4, 2, 1) if channels % h == 0)
        super().__init__(
            channels,
            conv,
            heads=heads,
            dropout=dropout,
            norm="layer_norm",
            norm_kwargs={"mode": "node"},
            attn_type=choose("attention", attention, ATTENTIONS),
        )
        if attention == "performer":
            self.register_module("attn", MaskedPerformer(channels, heads))
        choose("norm", norm, NORMS)
        if norm == "batch_norm":
            for name in ("norm1", "norm2", "norm3"):
                self.register_module(name, StepwiseBatchNorm(channels, num_recurrences))
        self.pre_norm = pre_norm
        if pre_norm:
            # attention and convolution read the same normed states
            self.norm2 = None

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()  # type: ignore[no-untyped-call]
        reset_what_is_left_out(self)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        layout: PaddedLayout | None = None,
        step: int = 0,
        **kwargs: Tensor,
    ) -> Tensor:
        r"""Runs the layer; further keywords go to the local convolution.

        Args:
            x (Tensor): Node states :math:`(N, F)`.
            edge_index (Tensor): Edges :math:`(2, E)`.
            batch (Tensor, optional): The graph of each node, sorted. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: counted)
            layout (PaddedLayout, optional): That of the batch vector. (default: :obj:`None`)
            step (int, optional): The recurrence of the block. (default: :obj:`0`)
        """
        if layout is None and batch is not None:
            layout = PaddedLayout.of(batch, count_graphs(batch, batch_size))
        steps = (step,) if isinstance(self.norm3, StepwiseBatchNorm) else ()
        z = self.norm1(x, *steps) if self.pre_norm else x
        attended = F.dropout(self._attend(z, layout), self.dropout, self.training)
        local: Tensor | None = None
        if self.conv is not None:
            local = convolve(self.conv, z, edge_index, **kwargs)
            local = F.dropout(local, self.dropout, self.training)
        out: Tensor
        if self.pre_norm:
            update = attended if local is None else attended + local
            out = update + self.mlp(self.norm3(x + update, *steps))
        else:
            h = self.norm2(x + attended, *steps)
            if local is not None:
                h = h + self.norm1(x + local, *steps)
            out = self.norm3(h + self.mlp(h), *steps)
        return out

    def _attend(self, x: Tensor, layout: PaddedLayout | None) -> Tensor:
        # [N, F] -> [B, n, F]
        dense = x.unsqueeze(0) if layout is None else layout.lay_out(x)
        padding = None if layout is None else layout.padding
        attention: Module = self.attn
        if isinstance(attention, MultiheadAttention):
            dense, _ = attention(dense, dense, dense, key_padding_mask=padding, need_weights=False)
        else:
            dense = attention(dense, mask=None if padding is None else ~padding)
        return dense.squeeze(0) if layout is None else layout.take_back(dense)


class MaskedPerformer(PerformerAttention):
    r"""PyG's :class:`~torch_geometric.nn.attention.PerformerAttention` without what padding would
    add to the keys:

    .. math::
        \mathbf{u}_i = \mathbf{W}_O \Big\Vert_h
        \frac{\phi(\mathbf{q}_{h,i})^\top \sum_j \phi(\mathbf{k}_{h,j}) \mathbf{v}_{h,j}^\top}
        {\phi(\mathbf{q}_{h,i})^\top \sum_j \phi(\mathbf{k}_{h,j})}, \qquad
        \phi(\mathbf{z}) = \mathrm{ReLU}(\mathbf{P} \mathbf{z}) + 10^{-3},

    where :math:`j` runs over the nodes of the graph and :math:`\mathbf{P}` is a fixed random
    projection.
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        # the default kernel of PyG is one object, whose mode all models would share
        super().__init__(channels, heads, kernel=ReLU(), dropout=dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        # [B, n, F] -> [B, H, n, D] each
        query, key, value = (
            lin(x).unflatten(-1, (self.heads, self.head_channels)).transpose(1, 2)
            for lin in (self.q, self.k, self.v)
        )
        projection = cast(Tensor, self.fast_attn.projection_matrix)
        query = generalized_kernel(query, projection, self.kernel)
        key = generalized_kernel(key, projection, self.kernel)
        if mask is not None:
            key = key.masked_fill(~mask[:, None, :, None], 0.0)
        # the kernel is positive: only a graph without nodes has the sum zero
        total = query @ key.sum(dim=-2).unsqueeze(-1)
        total = total.clamp(min=torch.finfo(total.dtype).tiny)
        attended = query @ (key.transpose(-2, -1) @ value) / total
        out: Tensor = self.dropout(self.attn_out(attended.transpose(1, 2).flatten(2)))
        return out


def reset_what_is_left_out(module: Module) -> None:
    r"""Resets what the parts of a module leave out of their own reset: the last map of PyTorch's
    multi-head attention, and the aggregation of PyG's GINE convolution.
    """
    for part in module.modules():
        if isinstance(part, MultiheadAttention):
            part.out_proj.reset_parameters()
            if part.out_proj.bias is not None:
                zeros_(part.out_proj.bias)
        elif isinstance(part, GINEConv):
            reset(part.aggr_module)
