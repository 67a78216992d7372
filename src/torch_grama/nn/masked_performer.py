"""Performer attention over padded batches of graphs."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import ReLU
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.attention.performer import generalized_kernel


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

    Args:
        channels (int): Width of the states.
        heads (int): Number of heads.
        dropout (float, optional): Dropout of the output. (default: :obj:`0.0`)

    Shapes:
        - **input:** states :math:`(B, n, F)`, mask of the nodes :math:`(B, n)` *(optional)*
        - **output:** :math:`(B, n, F)`
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        # the default kernel of PyG is one object, whose mode all models would share
        super().__init__(channels, heads, kernel=ReLU(), dropout=dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        r"""Returns what each node reads from its graph."""
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
