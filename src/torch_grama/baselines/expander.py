"""Random regular graphs that expand well."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops, to_dense_adj

# Below this size a random regular graph often fails, and the complete graph is small.
COMPLETE_UP_TO = 10
# Up to this size the spectral gap is measured.
MEASURED_UP_TO = 512
MAX_DRAWS = 10


@lru_cache(maxsize=4096)
def expander_edges(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    r"""Draws the edges of an expander graph, the same for the same arguments.

    The graph is the union of :obj:`degree` random permutations :math:`\pi` of the nodes, with
    edges :math:`i \to \pi(i)` and back: regular of degree :math:`2d` but for loops and double
    edges, which are taken out. Up to 512 nodes it is drawn again, ten times at most, until its
    second eigenvalue is at most :math:`2 \sqrt{2d - 1} + 0.1`, close to the smallest possible;
    larger random regular graphs have that property almost surely. Up to 10 nodes it is the
    complete graph.

    Args:
        num_nodes (int): Number of nodes.
        degree (int): Number of permutations :math:`d`; zero for no edges.
        seed (int, optional): Seed. (default: :obj:`0`)

    Returns:
        The edges :math:`(2, E)`, each in both directions. They are kept for the next call and must
        not be written to.
    """
    if degree == 0 or num_nodes < 2:
        return torch.zeros(2, 0, dtype=torch.long)
    if num_nodes <= COMPLETE_UP_TO:
        return (1 - torch.eye(num_nodes, dtype=torch.long)).nonzero().t().contiguous()
    generator = torch.Generator().manual_seed(seed)
    best, best_value = torch.zeros(2, 0, dtype=torch.long), math.inf
    for _ in range(MAX_DRAWS):
        edges = _draw_edges(num_nodes, degree, generator)
        if num_nodes > MEASURED_UP_TO:
            return edges
        value = _second_eigenvalue(edges, num_nodes)
        if value < best_value:
            best, best_value = edges, value
        if value <= 2 * math.sqrt(2 * degree - 1) + 0.1:
            break
    return best


def _draw_edges(num_nodes: int, degree: int, generator: torch.Generator) -> Tensor:
    nodes = torch.arange(num_nodes).repeat(degree)
    images = torch.cat([torch.randperm(num_nodes, generator=generator) for _ in range(degree)])
    edges = torch.stack([torch.cat([nodes, images]), torch.cat([images, nodes])])
    edges, _ = remove_self_loops(edges)
    unique: Tensor = coalesce(edges, num_nodes=num_nodes)
    return unique


def _second_eigenvalue(edges: Tensor, num_nodes: int) -> float:
    adjacency = to_dense_adj(edges, max_num_nodes=num_nodes)[0].double()
    return float(torch.linalg.eigvalsh(adjacency)[-2])
