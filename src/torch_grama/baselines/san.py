"""Attention that tells edges from pairs without one."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import (
    Embedding,
    Linear,
    Module,
)
from torch.utils.checkpoint import checkpoint

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.branch_stack import EdgeOptions, build_frames
from torch_grama.baselines.global_attention import (
    EPSILON,
    exponentiate,
    sum_over_edges,
)
from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel
from torch_grama.nn.graph_input import GraphInput


class SAN(EncodedModel):
    r"""The spectral attention network of `"Rethinking Graph Transformers with Spectral Attention"
    <https://arxiv.org/abs/2106.03893>`_ in the form of the Long Range Graph Benchmark:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathbf{W}_O \, \mathrm{Attention}(\mathbf{x})),
        \qquad \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where the attention of :class:`~torch_grama.baselines.san.SANAttention` has its own
    queries, keys and edge maps for the edges of the graph and for the pairs without an edge.

    .. note::
        Encodings of the Laplacian are part of the node features. Without edge attributes all edges
        share one learned vector.

    Args:
        dropout (float, optional): Dropout inside the layers.
        gamma (float, optional): Weight :math:`\gamma` of the pairs without an edge; zero for
            attention along the edges alone. (default: :obj:`1e-6`, as in the benchmark)
    """

    card = Card(
        equation="a_i = sum_j w_ij v_j / sum_j w_ij, w = exp(q k e) on edges and gamma exp(q' k' "
        "e') elsewhere, h = BN(x + W a), x' = BN(h + MLP(h))",
        reference="Kreuzer et al., Rethinking Graph Transformers with Spectral Attention, 2021",
        cost="N F^2 + n N F + E F, n nodes per graph",
        takes_edge_attr=True,
        departures=(
            "The learned Laplacian encoding is left out: encodings are those of all models here.",
            "Dropout follows the output map of the attention instead of preceding it.",
        ),
    )

    ignores_edge_weight: bool = True
    drops_ends = False

    def __init__(
        self, *sizes: int, heads: int = 4, gamma: float = 1e-6, **shared: Unpack[EdgeOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
        self.gamma = gamma
        self.present_edge = Embedding(1, self.hidden_channels) if self.edge_dim is None else None
        self.absent_edge = Embedding(1, self.hidden_channels)
        self.attentions = self.per_layer(lambda: SANAttention(self.hidden_channels, heads, gamma))
        self.out_lins = self.per_layer(lambda: Linear(self.hidden_channels, self.hidden_channels))
        self.frames = build_frames(self, 1)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        if edge_state is None:
            assert self.present_edge is not None
            edge_state = self.present_edge.weight.expand(view.edge_index.size(1), -1)
        is_absent = mark_absent_pairs(view) if self.gamma > 0 else None
        for attention, out_lin, frame in zip(
            self.attentions, self.out_lins, self.frames, strict=True
        ):
            attended = attention(x, edge_state, self.absent_edge.weight[0], view, is_absent)
            x = frame(x, [out_lin(attended)])
        return x


DEFAULT_ELEMENTS = 2**25


class SANAttention(Module):
    r"""The attention of `"Rethinking Graph Transformers with Spectral Attention"
    <https://arxiv.org/abs/2106.03893>`_, for each head

    .. math::
        \mathbf{a}_i = \frac{\sum_j w_{ij} \mathbf{v}_j}{\sum_j w_{ij} + 10^{-6}}, \qquad
        w_{ij} = \frac{1}{1 + \gamma} \begin{cases}
        \exp \langle \mathbf{q}_i \odot \mathbf{k}_j \odot \mathbf{E} \mathbf{e}_{ij} \rangle
        & j \to i \text{ is an edge} \\
        \gamma \exp \langle \mathbf{q}'_i \odot \mathbf{k}'_j \odot \mathbf{E}' \mathbf{e}' \rangle
        & \text{otherwise}, \; j \ne i
        \end{cases}

    over the nodes of the graph of :math:`i`, where :math:`\langle \cdot \rangle` adds up the
    channels, divides by :math:`\sqrt{d}` and keeps the score within :math:`\pm 5`.

    .. note::
        Time is quadratic in the nodes of a graph. The scores of the pairs without an edge are
        made for some rows at a time and again in the backward pass, so that no tensor has more
        than :obj:`max_elements` of them; what stays quadratic is one byte a pair for which pairs
        these are (25 MB for 128 graphs of 444 nodes, 0.5 GB for one of 22,662).
    """

    def __init__(
        self, channels: int, heads: int, gamma: float, max_elements: int = DEFAULT_ELEMENTS
    ) -> None:
        super().__init__()
        check_heads(channels, heads)
        if gamma < 0:
            raise ValueError(f"Expected 'gamma' not to be negative (got {gamma})")
        self.heads = heads
        self.gamma = gamma
        self.max_elements = max_elements
        self.query, self.key, self.edge, self.value = (
            Linear(channels, channels, bias=False) for _ in range(4)
        )
        self.absent_query, self.absent_key, self.absent_edge = (
            Linear(channels, channels, bias=False) for _ in range(3)
        )

    def forward(
        self,
        x: Tensor,
        edge_state: Tensor,
        absent_state: Tensor,
        view: BatchView,
        is_absent: Tensor | None,
    ) -> Tensor:
        # x [N, F], edge_state [E, F], absent_state [F] of all pairs without an edge
        value = self.value(x)
        total, weight = sum_over_edges(
            self._split(self.query(x)),
            self._split(self.key(x)),
            self._split(value),
            self._split(self.edge(edge_state)),
            view.edge_index,
        )
        if is_absent is not None:
            absent_total, absent_weight = self._sum_over_absent_pairs(
                self.absent_query(x) * self.absent_edge(absent_state),
                self.absent_key(x),
                value,
                view,
                is_absent,
            )
            total = (total + self.gamma * absent_total) / (1 + self.gamma)
            weight = (weight + self.gamma * absent_weight) / (1 + self.gamma)
        # [N, H, d] -> [N, F]
        out: Tensor = (total / (weight + EPSILON)).flatten(1)
        return out

    def _split(self, x: Tensor) -> Tensor:
        # [N, F] -> [N, H, d]
        out: Tensor = x.unflatten(-1, (self.heads, -1))
        return out

    def _sum_over_absent_pairs(
        self, query: Tensor, key: Tensor, value: Tensor, view: BatchView, is_absent: Tensor
    ) -> tuple[Tensor, Tensor]:
        # [N, F] -> [B, n, F] -> [B, H, n, d]
        query, key, value = (
            view.pack(part).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (query, key, value)
        )
        rows = max(1, self.max_elements // max(1, query.size(0) * self.heads * view.max_size))
        sums = [
            checkpoint(_sum_rows, part, key, value, mask, use_reentrant=False)
            if view.max_size > rows and torch.is_grad_enabled()
            else _sum_rows(part, key, value, mask)
            for part, mask in zip(
                query.split(rows, dim=2), is_absent.split(rows, dim=1), strict=True
            )
        ]
        total, weight = (torch.cat(parts, dim=2) for parts in zip(*sums, strict=True))
        # [B, H, n, d] -> [N, H, d]
        total, weight = (
            view.unpack(part.transpose(1, 2).flatten(2)).unflatten(-1, (self.heads, -1))
            for part in (total, weight)
        )
        return total, weight


def mark_absent_pairs(view: BatchView) -> Tensor:
    r"""Returns which pairs of two nodes of one graph have no edge :math:`(B, n, n)`.

    Entry :math:`(b, i, j)` stands for :math:`j \to i`; padding is never marked.
    """
    mask = view.mask
    if mask is None:
        shape = (view.num_graphs, view.max_size, view.max_size)
        is_absent = torch.ones(shape, dtype=torch.bool, device=view.edge_index.device)
    else:
        is_absent = mask.unsqueeze(1) & mask.unsqueeze(2)
    source, target = view.edge_index[0], view.edge_index[1]
    is_absent[view.graph[target], view.place[target], view.place[source]] = False
    is_absent.diagonal(dim1=1, dim2=2).fill_(False)
    return is_absent


def _sum_rows(
    query: Tensor, key: Tensor, value: Tensor, is_absent: Tensor
) -> tuple[Tensor, Tensor]:
    """The sums of some rows :math:`(B, H, r, d)` over the marked pairs, and their weights."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weight = exponentiate(scores) * is_absent.unsqueeze(1)
    return weight @ value, weight.sum(dim=-1, keepdim=True)
