"""The product of a sparse matrix, given as weighted edges, with node states."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.utils import scatter


def sum_neighbors(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r"""Returns :math:`\sum_{j \to i} w_{ij} \, \mathbf{x}_j` for every node.

    Args:
        x (Tensor): Node states :math:`(N, F)`.
        edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
        edge_weight (Tensor, optional): Weights :math:`(E)`. (default: :obj:`None`, all one)
    """
    messages = x.index_select(0, edge_index[0])
    if edge_weight is not None:
        messages = edge_weight.unsqueeze(-1) * messages
    return scatter(messages, edge_index[1], dim_size=x.size(0), reduce="sum")
