"""Attention to all nodes of a graph, and along given edges."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Module, MultiheadAttention
from torch_geometric.utils import scatter

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.graph_model import check_heads
from torch_grama.nn.gps_layer import MaskedPerformer, reset_what_is_left_out


def reset_multihead(attention: MultiheadAttention) -> None:
    r"""Resets all learnable parameters of PyTorch's attention, the last map too."""
    attention._reset_parameters()
    reset_what_is_left_out(attention)


class FullAttention(Module):
    r"""Multi-head attention over the nodes of each graph:

    .. math::
        \mathbf{u}_i = \mathbf{W}_O \Big\Vert_h \sum_{j \in b(i)} \mathrm{softmax}_j \left(
        \frac{\mathbf{q}_{h,i}^\top \mathbf{k}_{h,j}}{\sqrt{d}} \right) \mathbf{v}_{h,j},

    where :math:`b(i)` are the nodes of the graph of node :math:`i`.

    .. note::
        Time is quadratic in the nodes of a graph. Memory is linear where PyTorch has a fused
        kernel (CUDA; a CPU without attention dropout) and quadratic otherwise: 128 graphs of 444
        nodes and four heads then take 0.4 GB for each copy of the scores in single precision,
        one graph of 22,662 nodes 8 GB.

    Args:
        channels (int): Width of the states.
        heads (int): Number of heads.
        dropout (float, optional): Dropout of the attention weights. (default: :obj:`0.0`)
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.attention = MultiheadAttention(channels, heads, dropout, batch_first=True)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset_multihead(self.attention)

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Returns what each node reads from its graph."""
        # [N, F] -> [B, n, F]
        dense, mask = view.pack(x), view.mask
        padding = None if mask is None else ~mask
        dense, _ = self.attention(dense, dense, dense, key_padding_mask=padding, need_weights=False)
        return view.unpack(dense)


class LinearAttention(Module):
    r"""Performer attention over the nodes of each graph, linear in their number, by PyG's
    :class:`~torch_geometric.nn.attention.PerformerAttention`:

    .. math::
        \mathbf{u}_i = \mathbf{W}_O \Big\Vert_h
        \frac{\phi(\mathbf{q}_{h,i})^\top \sum_j \phi(\mathbf{k}_{h,j}) \mathbf{v}_{h,j}^\top}
        {\phi(\mathbf{q}_{h,i})^\top \sum_j \phi(\mathbf{k}_{h,j})}, \qquad
        \phi(\mathbf{z}) = \mathrm{ReLU}(\mathbf{P} \mathbf{z}) + 10^{-3},

    with a fixed random orthogonal :math:`\mathbf{P}`. The padding of a batch takes no part.

    .. note::
        Each head has 64 channels and 266 features, whatever the width of the states, as in the
        code of the GPS paper; a batch is padded to its largest graph. Four heads on 128 graphs
        of up to 444 nodes take 0.24 GB for each copy of the features.

    Args:
        channels (int): Width of the states.
        heads (int): Number of heads, 64 channels each.
        dropout (float, optional): Dropout of the result. (default: :obj:`0.0`)
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.attention = MaskedPerformer(channels, heads, dropout)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters and draws the projection anew."""
        self.attention._reset_parameters()  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Returns what each node reads from its graph."""
        # [N, F] -> [B, n, F] -> [N, F]
        return view.unpack(self.attention(view.pack(x), view.mask))


# Scores are kept within these bounds before they are exponentiated.
SCORE_BOUND = 5.0
# Added to the sum of the weights.
EPSILON = 1e-6


def exponentiate(scores: Tensor) -> Tensor:
    r"""Returns :math:`\exp(\mathrm{clamp}(s, -5, 5))`, the weight of each score."""
    return torch.exp(scores.clamp(-SCORE_BOUND, SCORE_BOUND))


def sum_over_edges(
    query: Tensor, key: Tensor, value: Tensor, edge: Tensor, edge_index: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Sums the values that reach each node, and the weights they come with:

    .. math::
        w_{ij} = \exp \left( \mathrm{clamp} \left( \frac{1}{\sqrt{d}} \sum_c
        q_{i,c} k_{j,c} e_{ij,c}, -5, 5 \right) \right), \qquad
        \Big( \sum_j w_{ij} \mathbf{v}_j, \; \sum_j w_{ij} \Big).

    Args:
        query (Tensor): Queries :math:`(N, H, d)`.
        key (Tensor): Keys :math:`(N, H, d)`.
        value (Tensor): Values :math:`(N, H, d)`.
        edge (Tensor): Maps of the edge states :math:`(E, H, d)`.
        edge_index (Tensor): Edges :math:`(2, E)`, :math:`j \to i`.

    Returns:
        The sums :math:`(N, H, d)` and the weights :math:`(N, H, 1)`.
    """
    source, target = edge_index[0], edge_index[1]
    scores = (query[target] * key[source] * edge).sum(dim=-1, keepdim=True)
    weight = exponentiate(scores / math.sqrt(query.size(-1)))
    num_nodes = query.size(0)
    total = scatter(weight * value[source], target, dim_size=num_nodes, reduce="sum")
    return total, scatter(weight, target, dim_size=num_nodes, reduce="sum")
