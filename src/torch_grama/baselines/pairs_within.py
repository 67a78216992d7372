"""Pairs of nodes within a few hops, with their distance."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import degree


def pairs_within(edge_index: Tensor, num_nodes: int, hops: int) -> tuple[Tensor, Tensor]:
    r"""Finds all pairs of nodes at a distance of at most :obj:`hops`, each node itself included.

    Args:
        edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
        num_nodes (int): Number of nodes.
        hops (int): Largest distance.

    Returns:
        The pairs :math:`(2, P)`, from source to target, and the number of edges of the shortest
        path from the one to the other :math:`(P)`.
    """
    # the sources of the edges into each node, side by side
    order = torch.argsort(edge_index[1], stable=True)
    sources = edge_index[0, order]
    count = degree(edge_index[1], num_nodes, torch.long)
    first = count.cumsum(0) - count

    nodes = torch.arange(num_nodes, device=edge_index.device)
    ring = nodes * num_nodes + nodes  # target * N + source
    rings = [ring]
    for _ in range(hops):
        target, source = ring // num_nodes, ring % num_nodes
        repeats = count[source]
        start = repeats.cumsum(0) - repeats
        within = torch.arange(int(repeats.sum()), device=ring.device)
        within = within - start.repeat_interleave(repeats)
        found = sources[first[source].repeat_interleave(repeats) + within]
        ring = (target.repeat_interleave(repeats) * num_nodes + found).unique()
        ring = ring[~torch.isin(ring, torch.cat(rings))]
        rings.append(ring)
    keys = torch.cat(rings)
    distance = torch.cat([torch.full_like(ring, hop) for hop, ring in enumerate(rings)])
    return torch.stack([keys % num_nodes, keys // num_nodes]), distance
