"""BigBird's sparse attention: a window, a few nodes that see all, and a few at random."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter, softmax

from torch_grama.baselines.batch_view import BatchView, node_noise
from torch_grama.baselines.graph_model import check_heads

# Nodes of the window to either side, nodes that see all, and random ones, for every node.
WINDOW, GLOBAL, RANDOM = 3, 2, 3


class BigBirdAttention(Module):
    r"""The attention of `"Big Bird: Transformers for Longer Sequences"
    <https://arxiv.org/abs/2007.14062>`_ over the nodes of each graph, in the order of their
    numbers:

    .. math::
        \mathbf{u}_i = \mathbf{W}_O \Big\Vert_h \sum_{j \in S(i)} \mathrm{softmax}_{j \in S(i)}
        \left( \frac{\mathbf{q}_{h,i}^\top \mathbf{k}_{h,j}}{\sqrt{d}} \right) \mathbf{v}_{h,j},

    where :math:`S(i)` are the nodes whose number differs by at most 3, the first 2 nodes of the
    graph and 3 random ones; the first 2 nodes see all. Time and memory are linear in the nodes.

    .. note::
        The sets are of single nodes; the implementation for accelerators has blocks of them. Which
        nodes are the random ones is fixed by the numbers of the nodes.

    Args:
        channels (int): Width of the states.
        heads (int): Number of heads.
        dropout (float, optional): Dropout of the attention weights. (default: :obj:`0.0`)
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.dropout = dropout
        self.in_lin = Linear(channels, 3 * channels)
        self.out_lin = Linear(channels, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.in_lin)
        reset(self.out_lin)

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Returns what each node reads from its graph."""
        # N nodes, H heads, K nodes that each sees; [N, F] -> three of [N, H, d]
        query, key, value = self.in_lin(x).view(x.size(0), 3, self.heads, -1).unbind(1)
        query = query / math.sqrt(query.size(-1))
        seen, counts = _seen_nodes(view)
        # 1. every node: [N, K, H]
        scores = (query.unsqueeze(1) * key[seen]).sum(-1)
        scores = scores.masked_fill(~counts.unsqueeze(-1), -torch.inf)
        weight = F.dropout(scores.softmax(1), self.dropout, self.training)
        out = (weight.unsqueeze(-1) * value[seen]).sum(1)
        # 2. the first nodes of each graph, which see all: [N, G, H]
        first = torch.arange(GLOBAL, device=x.device)
        size = view.sizes[view.graph].unsqueeze(1)
        target = (torch.arange(x.size(0), device=x.device) - view.place).unsqueeze(1) + first
        target = torch.where(first < size, target, target[:, :1])
        scores = (query[target] * key.unsqueeze(1)).sum(-1)
        low = torch.finfo(scores.dtype).min / 2
        scores = torch.where((first < size).unsqueeze(-1), scores, low).flatten(0, 1)
        weight = softmax(scores, target.flatten(), num_nodes=x.size(0))
        weight = F.dropout(weight, self.dropout, self.training).view(*target.shape, -1, 1)
        message = (weight * value.unsqueeze(1)).flatten(0, 1)
        whole = scatter(message, target.flatten(), dim_size=x.size(0), reduce="sum")
        sees_all = (view.place < GLOBAL).view(-1, 1, 1)
        mixed: Tensor = self.out_lin(torch.where(sees_all, whole, out).flatten(1))
        return mixed


def _seen_nodes(view: BatchView) -> tuple[Tensor, Tensor]:
    """The nodes ``[N, K]`` that each node sees, and which of them count: inside, and not twice."""
    place, size = view.place.unsqueeze(1), view.sizes[view.graph].unsqueeze(1)
    move = torch.arange(-WINDOW, WINDOW + 1, device=place.device)
    near = place + move
    first = torch.arange(GLOBAL, device=place.device).expand(len(place), -1)
    noise = node_noise(view.place, RANDOM, False, torch.float64)
    drawn = (noise * size).long()
    chosen = torch.cat([near, first, drawn], dim=1)
    counts = (chosen >= 0) & (chosen < size)
    # a node that was named before is not counted again
    named = chosen.unsqueeze(2) == chosen.unsqueeze(1)
    counts = counts & ~named.tril(-1).any(dim=2)
    start = torch.arange(len(place), device=place.device).unsqueeze(1) - place
    return start + torch.where(counts, chosen, place), counts
