"""A transformer over the hops around each node."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor
from torch.nn import GELU, Dropout, LayerNorm, Linear, Module, MultiheadAttention
from torch.nn import Sequential as Chain
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.inits import reset

from torch_grama.baselines.global_attention import reset_multihead
from torch_grama.baselines.graph_model import POSITIONS, Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.graph_input import GraphInput

# Nodes that attend at once; the fused kernels stop at 65,535 sequences.
NODES_AT_ONCE = 32_768


class NAGphormer(EncodedModel):
    r"""The model of `"NAGphormer: A Tokenized Graph Transformer for Node Classification in Large
    Graphs" <https://arxiv.org/abs/2206.04910>`_: every node is a sequence of its neighbourhoods,

    .. math::
        \mathbf{Z}^{(0)}_i = \left[ \mathbf{x}_i, (\hat{\mathbf{A}} \mathbf{X})_i, \ldots,
        (\hat{\mathbf{A}}^K \mathbf{X})_i \right] \mathbf{W}, \qquad
        \mathbf{Z}' = \mathbf{Z} + \mathrm{MHA}(\mathrm{LN}(\mathbf{Z})), \quad
        \mathbf{Z}^{(l+1)} = \mathbf{Z}' + \mathrm{FFN}(\mathrm{LN}(\mathbf{Z}')),

    with :math:`\hat{\mathbf{A}}` the normalised adjacency matrix with self-loops. The hops are then
    read by attention against the node itself,

    .. math::
        \mathbf{h}_i = \mathbf{z}_{i,0} + \sum_{k=1}^K \mathrm{softmax}_k \left( \mathbf{a}^\top
        [\mathbf{z}_{i,0} \Vert \mathbf{z}_{i,k}] + b \right) \mathbf{z}_{i,k}.

    Args:
        num_layers (int): Number of transformer layers.
        dropout (float, optional): Dropout inside the layers.
        hops (int, optional): Number of hops :math:`K`.
    """

    card = Card(
        equation="z_i = transformer([x_i, (A_hat x)_i, ..., (A_hat^K x)_i]), x_i' = z_i0 + sum_k "
        "softmax_k(a [z_i0, z_ik]) z_ik",
        reference="Chen et al., NAGphormer: A Tokenized Graph Transformer for Node Classification "
        "in Large Graphs, 2023",
        cost="K N F^2 + K^2 N F, and once K E C, K hops, C input channels",
        source="torch_grama, with torch.nn.MultiheadAttention",
        departures=(
            "Whole graphs at a time; the paper trains on batches of nodes with stored hops.",
            "The head is a readout MLP of the hidden width; the paper's narrows to half of it.",
            POSITIONS,
        ),
    )

    drops_ends = False

    def __init__(
        self,
        *sizes: int,
        hops: int = 7,
        heads: int = 8,
        attention_dropout: float = 0.0,
        **shared: Unpack[HeadOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(hops=hops)
        check_heads(self.hidden_channels, heads)
        self.hops = hops
        self.step = SimpleConv(aggr="sum")  # type: ignore[abstract]
        self.layers = self.per_layer(
            lambda: _PreNormLayer(self.hidden_channels, heads, self.dropout, attention_dropout)
        )
        self.norm = LayerNorm(self.hidden_channels)
        self.hop_lin = Linear(2 * self.hidden_channels, 1)
        self.reset_parameters()

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        edge_index, weight = gcn_norm(
            graph.edge_index, graph.edge_weight, graph.num_nodes, dtype=x.dtype
        )
        hops = [x]
        for _ in range(self.hops):
            hops.append(self.step(hops[-1], edge_index, weight))
        # [N, C] each -> [N, K + 1, F] -> [N, F]
        tokens = torch.stack([self.encoder(hop, None, 0)[0] for hop in hops], dim=1)
        return torch.cat([self._read(part) for part in tokens.split(NODES_AT_ONCE)])

    def _read(self, tokens: Tensor) -> Tensor:
        for layer in self.layers:
            tokens = layer(tokens)
        tokens = self.norm(tokens)
        # [N, K + 1, F] -> [N, 1, F] and [N, K, F]
        own, hops = tokens[:, :1], tokens[:, 1:]
        weight = torch.softmax(self.hop_lin(torch.cat([own.expand_as(hops), hops], -1)), dim=1)
        return own.squeeze(1) + (weight * hops).sum(dim=1)


class _PreNormLayer(Module):
    def __init__(self, channels: int, heads: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.attention_norm = LayerNorm(channels)
        self.attention = MultiheadAttention(channels, heads, attention_dropout, batch_first=True)
        self.dropout = Dropout(dropout)
        self.mlp = Chain(
            LayerNorm(channels),
            Linear(channels, 2 * channels),
            GELU(),
            Linear(2 * channels, channels),
            Dropout(dropout),
        )

    def reset_parameters(self) -> None:
        self.attention_norm.reset_parameters()
        reset_multihead(self.attention)
        reset(self.mlp)

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.attention_norm(tokens)
        attended, _ = self.attention(normed, normed, normed, need_weights=False)
        tokens = tokens + self.dropout(attended)
        out: Tensor = tokens + self.mlp(tokens)
        return out
