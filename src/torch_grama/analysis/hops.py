"""Distances in hops, to many goals at once."""

from __future__ import annotations

import torch
from torch import Tensor

# Numbers held at once while distances are found.
_CHUNK_NUMBERS = 2**22

UNREACHABLE = -1


def hop_distance(edge_index: Tensor, num_nodes: int, goals: Tensor) -> Tensor:
    r"""Number of edges on the shortest path from every node to the nearest goal.

    Paths follow the edges from source to target, as messages do.

    Args:
        edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
        num_nodes (int): Number of nodes :math:`N`.
        goals (Tensor): Which nodes are goals, boolean: one set :math:`(N)` or several
            :math:`(M, N)`.

    Returns:
        Tensor: The distances, of the same shape; 0 at the goals and -1 where no path leads to one.

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
    # backward from all goals at once: only pairs (goal, node) that were reached last go on
    num_nodes = goals.size(1)
    target, order = edge_index[1].sort()
    before = edge_index[0][order]  # the sources of the edges into node 0, into node 1, ...
    degree = torch.bincount(target, minlength=num_nodes)
    start = degree.cumsum(0) - degree
    distance = torch.where(goals.flatten(), 0, UNREACHABLE)
    first = torch.empty_like(distance)
    front, hops = goals.flatten().nonzero().flatten(), 0
    while len(front):
        hops += 1
        node = front % num_nodes
        count = degree[node]
        ends = count.cumsum(0)
        inside = torch.arange(int(ends[-1]), device=front.device)
        edge = inside + (start[node] - ends + count).repeat_interleave(count)
        reached = (front - node).repeat_interleave(count) + before[edge]
        reached = reached[distance[reached] == UNREACHABLE]
        # a pair that is reached along several edges goes on once
        place = torch.arange(len(reached), device=front.device)
        first[reached] = place
        front = reached[first[reached] == place]
        distance[front] = hops
    return distance.view(goals.shape)
