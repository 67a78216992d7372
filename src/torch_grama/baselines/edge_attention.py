"""Attention whose scores are products of query, key and edge."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.utils import scatter

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
