"""Attention over all nodes of a graph, alone or beside local message passing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, MultiheadAttention
from torch_geometric.utils import scatter, softmax

from torch_grama.baselines.branch_stack import BatchView, BranchStack, node_noise
from torch_grama.baselines.graph_model import POSITIONS, Card, check_heads
from torch_grama.baselines.layer_stack import EdgeOptions, HeadOptions
from torch_grama.nn.arguments import choose
from torch_grama.nn.engine.adjacency import value_type
from torch_grama.nn.gps_layer import MaskedPerformer, reset_what_is_left_out


class GPS(BranchStack):
    r"""Attention over all nodes of a graph beside local message passing:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. warning::
        What BigBird sees depends on how the nodes are numbered.

    Args:
        attention (str, optional): ``"multihead"``, or ``"performer"`` or ``"bigbird"`` for large
            graphs.
        attention_dropout (float, optional): Dropout of the attention.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + multihead(x)), x' = BN(h + MLP(h))",
        reference="Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, "
        "2022 (arXiv:2205.12454)",
        cost="N F^2 + n N F + E F, n nodes per graph",
        source="torch_grama, with torch.nn.MultiheadAttention and the PyG operators",
        departures=(POSITIONS,),
    )

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        attention: str = "multihead",
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        build = choose("attention", attention, ATTENTIONS)

        def build_mixer(channels: int) -> Module:
            return build(channels, heads, attention_dropout)

        super().__init__(*sizes, local=local, build_mixer=build_mixer, **shared)


class Transformer(BranchStack):
    r"""Every node attends to every node of its graph, and the edges are not seen:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    What it knows of the graph it knows from positional encodings among the node features.

    Args:
        attention_dropout (float, optional): Dropout of the attention weights; the benchmark has
            0.5.
    """

    card = Card(
        equation="h = BN(x + attention(x)), x' = BN(h + MLP(h)), over all nodes of a graph",
        reference="Dwivedi et al., Long Range Graph Benchmark, 2022 (arXiv:2206.08164)",
        cost="N F^2 + n N F, n nodes per graph",
        source="torch.nn.MultiheadAttention",
        departures=(POSITIONS,),
    )

    def __init__(
        self,
        *sizes: int,
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[HeadOptions],
    ) -> None:
        super().__init__(
            *sizes,
            local=None,
            build_mixer=lambda channels: FullAttention(channels, heads, attention_dropout),
            **shared,
        )


def reset_multihead(attention: MultiheadAttention) -> None:
    r"""Resets all learnable parameters of PyTorch's attention, the last map too."""
    attention._reset_parameters()
    reset_what_is_left_out(attention)


class FullAttention(Module):
    r"""Multi-head attention over the nodes of each graph. Time is quadratic in the nodes of a
    graph; memory is linear where PyTorch has a fused kernel (CUDA; a CPU without attention dropout)
    and quadratic otherwise: 128 graphs of 444 nodes and four heads then take 0.4 GB for each copy
    of the scores in single precision, one graph of 22,662 nodes 8 GB.
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.attention = MultiheadAttention(channels, heads, dropout, batch_first=True)

    def reset_parameters(self) -> None:
        reset_multihead(self.attention)

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        # [N, F] -> [B, n, F]
        dense, mask = view.pack(x), view.mask
        padding = None if mask is None else ~mask
        dense, _ = self.attention(dense, dense, dense, key_padding_mask=padding, need_weights=False)
        return view.unpack(dense)


class LinearAttention(Module):
    r"""Performer attention over the nodes of each graph, linear in their number; the padding of a
    batch takes no part. Each head has 64 channels and 266 features, whatever the width of the
    states, as in the code of the GPS paper; four heads on 128 graphs of up to 444 nodes take
    0.24 GB for each copy of the features.
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.attention = MaskedPerformer(channels, heads, dropout)

    def reset_parameters(self) -> None:
        self.attention._reset_parameters()  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        # [N, F] -> [B, n, F] -> [N, F]
        return view.unpack(self.attention(view.pack(x), view.mask))


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
    graph and 3 random ones, fixed by the numbers of the nodes; the first 2 nodes see all. Time and
    memory are linear in the nodes.
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads, self.dropout = heads, dropout
        self.in_lin = Linear(channels, 3 * channels)
        self.out_lin = Linear(channels, channels)

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        # N nodes, H heads, K nodes that each sees; [N, F] -> three of [N, H, d]
        states = self.in_lin(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = states.to(value_type(states.dtype)).unbind(1)
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
        weight = F.dropout(weight, self.dropout, self.training).view(*target.shape, self.heads, 1)
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


ATTENTIONS: dict[str, Callable[[int, int, float], Module]] = {
    "multihead": FullAttention,
    "performer": LinearAttention,
    "bigbird": BigBirdAttention,
}
