"""Local convolution plus global attention."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, MultiheadAttention
from torch_geometric.nn import GPSConv, MessagePassing

from torch_grama.nn.choices import choose
from torch_grama.nn.graph_mean import count_graphs
from torch_grama.nn.masked_performer import MaskedPerformer
from torch_grama.nn.padded_layout import PaddedLayout
from torch_grama.nn.thorough_reset import reset_what_is_left_out

ATTENTIONS = {"multihead": "multihead", "performer": "performer"}


class GPSLayer(GPSConv):
    r"""The layer of `"Recipe for a General, Powerful, Scalable Graph Transformer"
    <https://arxiv.org/abs/2205.12454>`_ as a backbone:

    .. math::
        \mathbf{h} = \mathrm{Norm}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{Norm}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{Norm}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    With :obj:`pre_norm` it returns what it would add to the states, and norms what it reads instead
    of what it returns:

    .. math::
        \mathbf{u} = \mathrm{MPNN}(\mathrm{Norm}(\mathbf{x})) +
        \mathrm{Attention}(\mathrm{Norm}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathbf{u} + \mathrm{MLP}(\mathrm{Norm}(\mathbf{x} + \mathbf{u})).

    A recurrence adds the states itself. Around the first form they are added twice, and the norm
    takes the size of what a layer finds before it is added.

    It is PyG's :class:`~torch_geometric.nn.GPSConv` with three differences. The norm is a layer
    norm over the channels of each node: one backbone serves all recurrences of a block, and the
    running statistics of a batch norm would mix those of all steps. A single graph is attended to
    without being copied into a padded batch. And the padding of a batch takes no part in linear
    attention, so that a batch gives the same result as its graphs one by one.

    Args:
        channels (int): Width of the states.
        conv (MessagePassing, optional): The local convolution; :obj:`None` for attention only.
            (default: :obj:`None`)
        heads (int, optional): Number of attention heads. (default: the largest of 4, 2, 1 that
            divides the channels)
        dropout (float, optional): Dropout of the layer. (default: :obj:`0.0`)
        attention (str, optional): ``"multihead"``, or ``"performer"`` for large graphs, whose cost
            is linear in the number of nodes. (default: :obj:`"multihead"`)
        pre_norm (bool, optional): Whether to take the second form above.
            (default: :obj:`False`)

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
        **kwargs: Tensor,
    ) -> Tensor:
        r"""Runs the layer; further keywords go to the local convolution.

        Args:
            x (Tensor): Node states :math:`(N, F)`.
            edge_index (Tensor): Edges :math:`(2, E)`.
            batch (Tensor, optional): The graph of each node, sorted. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: counted)
            layout (PaddedLayout, optional): That of the batch vector, if it was read already.
                (default: :obj:`None`)
            **kwargs (Tensor): Passed on to the convolution.
        """
        if layout is None and batch is not None:
            layout = PaddedLayout.of(batch, count_graphs(batch, batch_size))
        z = self.norm1(x) if self.pre_norm else x
        attended = F.dropout(self._attend(z, layout), self.dropout, self.training)
        local: Tensor | None = None
        if self.conv is not None:
            local = F.dropout(self.conv(z, edge_index, **kwargs), self.dropout, self.training)
        return self._add(x, attended, local) if self.pre_norm else self._join(x, attended, local)

    def _join(self, x: Tensor, attended: Tensor, local: Tensor | None) -> Tensor:
        h = self.norm2(x + attended)
        if local is not None:
            h = h + self.norm1(x + local)
        out: Tensor = self.norm3(h + self.mlp(h))
        return out

    def _add(self, x: Tensor, attended: Tensor, local: Tensor | None) -> Tensor:
        update = attended if local is None else attended + local
        out: Tensor = update + self.mlp(self.norm3(x + update))
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
