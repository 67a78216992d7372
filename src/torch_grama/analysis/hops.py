"""Distances in hops along the edges of a graph."""

from __future__ import annotations

import torch
from torch import Tensor

# Numbers held at once while the distances are found.
_CHUNK_NUMBERS = 2**22

UNREACHABLE = -1


def hop_distance(edge_index: Tensor, num_nodes: int, goals: Tensor) -> Tensor:
    r"""Number of edges on the shortest path from every node to the nearest goal.

    Paths follow the edges from source to target, as messages do. Several sets of goals are handled
    at once, and the graphs of a batch too.

    Args:
        edge_index (Tensor): Edges, from source to target.
        num_nodes (int): Number of nodes :math:`N`.
        goals (Tensor): Which nodes are goals, boolean; one set of goals or several.

    Shapes:
        - **input:** edge_index :math:`(2, E)`, goals :math:`(N)` or :math:`(M, N)`
        - **output:** distances :math:`(N)` or :math:`(M, N)`, of dtype :obj:`torch.long`

    Returns:
        Tensor: The distances, 0 at the goals and -1 where no path leads to one.

    Raises:
        ValueError: If ``goals`` is not boolean with one entry a node.

    Example:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> hop_distance(path, 4, torch.tensor([False, False, True, False]))
        tensor([ 2,  1,  0, -1])
    """
    if goals.dtype != torch.bool or goals.dim() not in (1, 2) or goals.size(-1) != num_nodes:
        raise ValueError(
            f"Expected 'goals' to be boolean of shape [{num_nodes}] or [M, {num_nodes}] "
            f"(got {goals.dtype} of shape {tuple(goals.shape)})"
        )
    if goals.dim() == 1:
        return hop_distance(edge_index, num_nodes, goals.unsqueeze(0))[0]
    largest = max(num_nodes, edge_index.size(1), 1)
    chunks = goals.split(max(1, _CHUNK_NUMBERS // largest))
    return torch.cat([_search(edge_index, chunk) for chunk in chunks])


def _search(edge_index: Tensor, goals: Tensor) -> Tensor:
    source, target = edge_index
    # [M, N] -> [N, M]: a hop moves whole rows
    front = goals.mT.contiguous()
    distance = torch.where(front, 0, UNREACHABLE)
    hops = 0
    while bool(front.any()):
        hops += 1
        reached = torch.zeros_like(front, dtype=torch.float32)
        reached.index_add_(0, source, front[target].float())
        front = (reached > 0) & (distance == UNREACHABLE)
        distance.masked_fill_(front, hops)
    return distance.mT.contiguous()
