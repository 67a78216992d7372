"""Transformers for large graphs: over centres of clusters, and over the hops around a node."""

from __future__ import annotations

import math
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import (
    GELU,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    MultiheadAttention,
    ReLU,
    Sequential,
)
from torch_geometric.nn.inits import reset
from torch_geometric.utils import degree, scatter, softmax

from torch_grama.baselines.branch_stack import BatchView
from torch_grama.baselines.gps import reset_multihead
from torch_grama.baselines.graph_model import POSITIONS, Card, check_heads
from torch_grama.baselines.hop_pairs import pairs_within
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency
from torch_grama.nn.norms import StepwiseBatchNorm


class GOAT(EncodedModel):
    r"""Each layer attends to the nodes nearby and to the centres of clusters that stand for all
    nodes,

    .. math::
        \mathbf{l}_i &= \sum_{j : d(i, j) \le K} \mathrm{softmax}_j \left(
        \frac{\mathbf{q}_i^\top \mathbf{k}_j}{\sqrt{F}} + b_{d(i, j)} - \log |R_{d(i, j)}(i)|
        \right) \mathbf{v}_j, \\
        \mathbf{g}_i &= \sum_k \mathrm{softmax}_k \left(
        \frac{\mathbf{q}'^\top_i \mathbf{W}_k \boldsymbol{\mu}_k}{\sqrt{F}} + \log n_k \right)
        \mathbf{W}_v \boldsymbol{\mu}_k, \qquad
        \mathbf{x}'_i = \mathrm{FFN}([\mathbf{l}_i \Vert \mathbf{g}_i]),

    for each head, where :math:`d` is the distance in hops, :math:`R_d(i)` the ring of nodes at
    distance :math:`d`, :math:`\boldsymbol{\mu}_k` a centre of
    :class:`~torch_grama.baselines.large_graphs.Codebook` over projected states and :math:`n_k` the
    number of nodes of the graph of :math:`i` that are nearest to it. The FFN is linear, batch norm,
    ReLU, twice.

    The centres are data, like the running statistics of a batch norm: training moves them,
    evaluation does not.

    Args:
        hidden_channels (int): Width of the states, and of each head.
        dropout (float, optional): Dropout inside the layers.
        num_centroids (int, optional): Number of centres.
        local_hops (int, optional): Distance :math:`K` of the local attention; the number of pairs
            grows with its power.
    """

    card = Card(
        equation="x_i' = FFN([sum_j softmax_j(q_i k_j + b_d(ij)) v_j, sum_k softmax_k(q_i' W mu_k "
        "+ log n_k) V mu_k]), j nearby, mu_k the centres of k-means",
        reference="Kong et al., GOAT: A Global Transformer on Large-scale Graphs, 2023 "
        "(https://proceedings.mlr.press/v202/kong23a.html)",
        cost="N F^2 + E F + K N F, K centres",
        departures=(
            "All nodes within local_hops (1 by default); the paper samples 20, 10 and 5 nodes in "
            "three hops, and its model has one layer.",
            "Positional codes are part of the node features, not beside them.",
            "Counts of the centres are those of the node's own graph at this step; the paper's "
            "are of one graph and of earlier steps.",
            "Centres start with a count of one, so that unused ones stay in place.",
        ),
    )
    ignores_edge_weight: bool = True
    drops_ends = False

    def __init__(
        self,
        *sizes: int,
        heads: int = 4,
        num_centroids: int = 1024,
        local_hops: int = 1,
        attention_dropout: float = 0.0,
        **shared: Unpack[HeadOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(heads=heads, local_hops=local_hops)
        self.local_hops = local_hops
        width, wide = self.hidden_channels, heads * self.hidden_channels

        def rectify(channels: int) -> tuple[Module, ...]:
            return StepwiseBatchNorm(channels), ReLU(), Dropout(self.dropout)

        self.embedding = Sequential(*rectify(width), Linear(width, width))
        self.local_attentions = self.per_layer(
            lambda: _LocalAttention(width, heads, local_hops, attention_dropout)
        )
        self.global_attentions = self.per_layer(
            lambda: _CentroidAttention(width, heads, num_centroids, attention_dropout)
        )
        self.mlps = self.per_layer(
            lambda: Sequential(
                Linear(2 * wide, wide), *rectify(wide), Linear(wide, width), *rectify(width)
            )
        )
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        x, view = self.embedding(x), BatchView.of(graph)
        pairs, distance = pairs_within(view.edge_index, view.num_nodes, self.local_hops)
        # for each pair the logarithm of the number of nodes in its ring
        ring = pairs[1] * (self.local_hops + 1) + distance
        ring_size = degree(ring, view.num_nodes * (self.local_hops + 1), torch.long)[ring]
        log_size = ring_size.to(x.dtype).log()
        for near, far, mlp in zip(
            self.local_attentions, self.global_attentions, self.mlps, strict=True
        ):
            # [N, H F] and [N, H F] -> [N, F]
            x = mlp(torch.cat([near(x, pairs, distance, log_size), far(x, view)], dim=-1))
        return x


class _LocalAttention(Module):
    def __init__(self, channels: int, heads: int, hops: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = (Linear(channels, heads * channels) for _ in range(3))
        self.distance_bias = Embedding(hops + 1, heads)

    def reset_parameters(self) -> None:
        for lin in (self.query, self.key, self.value):
            lin.reset_parameters()
        torch.nn.init.zeros_(self.distance_bias.weight)

    def forward(self, x: Tensor, pairs: Tensor, distance: Tensor, log_size: Tensor) -> Tensor:
        source, target = pairs[0], pairs[1]
        query, key, value = (
            lin(x).unflatten(-1, (self.heads, -1)) for lin in (self.query, self.key, self.value)
        )
        # one score per pair and head
        score = (gather(query, target) * gather(key, source)).sum(dim=-1)
        score = score / math.sqrt(query.size(-1))
        score = score + self.distance_bias(distance) - log_size.unsqueeze(-1)
        weight = softmax(score, target, num_nodes=x.size(0))
        weight = F.dropout(weight, self.dropout, self.training)
        message = weight.unsqueeze(-1) * gather(value, source)
        return scatter(message, target, dim_size=x.size(0), reduce="sum").flatten(1)


class _CentroidAttention(Module):
    def __init__(self, channels: int, heads: int, num_centroids: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.num_centroids = num_centroids
        self.project = Linear(channels, channels)
        self.query, self.key, self.value = (Linear(channels, heads * channels) for _ in range(3))
        self.codebook = Codebook(num_centroids, channels)

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        points = self.project(x)
        nearest = self.codebook.assign(points)
        centres = self.codebook.decode()
        # [B, K]: how many nodes of each graph stand behind each centre
        size = view.num_graphs, self.num_centroids
        counts = degree(view.graph * size[1] + nearest, size[0] * size[1], torch.long)
        bias = counts.view(size)[view.graph]
        # [N, H F] -> [H, N, F], [K, H F] -> [H, K, F]
        query, key, value = (
            lin(part).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            for lin, part in ((self.query, points), (self.key, centres), (self.value, centres))
        )
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias.to(query.dtype).log(), dropout_p=dropout
        )
        if self.training:
            self.codebook.update(points)
        return out.transpose(0, 1).flatten(1)


class Codebook(Module):
    r"""Online k-means with exponential moving averages, as in `"Neural Discrete Representation
    Learning" <https://arxiv.org/abs/1711.00937>`_, appendix A:

    .. math::
        c(i) = \arg\min_k \Vert \bar{\mathbf{x}}_i - \boldsymbol{\mu}_k \Vert, \qquad
        n_k \leftarrow \lambda n_k + (1 - \lambda) \, |c^{-1}(k)|, \qquad
        \mathbf{m}_k \leftarrow \lambda \mathbf{m}_k + (1 - \lambda) \sum_{c(i) = k}
        \bar{\mathbf{x}}_i, \qquad \boldsymbol{\mu}_k = \mathbf{m}_k / n_k,

    where :math:`\bar{\mathbf{x}}` is :math:`\mathbf{x}` normalised channel by channel, with the
    statistics of the batch in an update and with running ones otherwise. The counts :math:`n` start
    at one, so that a centre that no point has yet chosen stays where it is.
    """

    centroids: Tensor
    counts: Tensor
    totals: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_centroids: int, channels: int, decay: float = 0.99, momentum: float = 0.1
    ) -> None:
        super().__init__()
        check_positive(num_centroids=num_centroids, channels=channels)
        self.decay, self.momentum, self.epsilon = decay, momentum, 1e-5
        self.register_buffer("centroids", torch.empty(num_centroids, channels))
        self.register_buffer("counts", torch.empty(num_centroids))
        self.register_buffer("totals", torch.empty(num_centroids, channels))
        self.register_buffer("running_mean", torch.empty(channels))
        self.register_buffer("running_var", torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.normal_(self.centroids)
        self.totals.copy_(self.centroids)
        self.counts.fill_(1)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    @torch.no_grad()
    def assign(self, x: Tensor) -> Tensor:
        r"""Returns the nearest centre of each point :math:`(N)`."""
        return self._nearest(self._normalize(x, self.running_mean, self.running_var))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        if x.size(0) < 2:  # no variance
            return
        x = x.to(self.centroids.dtype)
        mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
        unbiased = var * x.size(0) / (x.size(0) - 1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)
        points = self._normalize(x, mean, var)
        nearest = self._nearest(points)
        counts = torch.zeros_like(self.counts).index_add_(0, nearest, torch.ones_like(points[:, 0]))
        totals = torch.zeros_like(self.totals).index_add_(0, nearest, points)
        self.counts.lerp_(counts, 1 - self.decay)
        self.totals.lerp_(totals, 1 - self.decay)
        # both averages of a centre that nobody chooses vanish in the end; it stays where it was
        moved = self.totals / self.counts.clamp(min=self.epsilon).unsqueeze(-1)
        is_used = (self.counts > self.epsilon).unsqueeze(-1)
        self.centroids.copy_(torch.where(is_used, moved, self.centroids))

    def decode(self) -> Tensor:
        r"""Returns the centres on the scale of the points :math:`(K, F)`."""
        return self.centroids * (self.running_var + self.epsilon).sqrt() + self.running_mean

    def _normalize(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return (x - mean) * torch.rsqrt(var + self.epsilon)

    def _nearest(self, points: Tensor) -> Tensor:
        # the square of the point is the same for all centres
        distance = self.centroids.square().sum(dim=-1) - 2 * points @ self.centroids.t()
        return distance.argmin(dim=-1)


# Nodes that attend at once; the fused kernels stop at 65,535 sequences.
NODES_AT_ONCE = 32_768


class NAGphormer(EncodedModel):
    r"""Every node is a sequence of its neighbourhoods,

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
        "in Large Graphs, 2023 (arXiv:2206.04910)",
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
        self.layers = self.per_layer(
            lambda: _PreNormLayer(self.hidden_channels, heads, self.dropout, attention_dropout)
        )
        self.norm = LayerNorm(self.hidden_channels)
        self.hop_lin = Linear(2 * self.hidden_channels, 1)
        self.reset_parameters()

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        matrix = shared_gcn_adjacency(graph, x.dtype)
        hops = [x]
        for _ in range(self.hops):
            hops.append(propagate(matrix, hops[-1]))
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
        self.mlp = Sequential(
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
