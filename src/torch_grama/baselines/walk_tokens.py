"""Subgraphs that random walks from each node have seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.node_noise import node_noise


@dataclass(frozen=True, eq=False)
class WalkTokens:
    r"""The tokens of all nodes: for each node a sequence of subgraphs, the widest first and the
    node alone last.

    Attributes:
        num_tokens: Tokens a node :math:`T`.
        node: The node of each member of a token :math:`(P)`.
        token: The token of each member, :math:`T` times its owner plus its place in the sequence
            :math:`(P)`.
        source: The member at the start of each edge within a token :math:`(Q)`.
        target: The member at its end :math:`(Q)`.
        edge: The edge of the graph that it is :math:`(Q)`.
    """

    num_tokens: int
    node: Tensor
    token: Tensor
    source: Tensor
    target: Tensor
    edge: Tensor


def sample_walk_tokens(
    view: BatchView, max_length: int, num_samples: int, num_walks: int, training: bool
) -> WalkTokens:
    r"""Samples the tokens of each node.

    For each length :math:`\hat m = m, \ldots, 1` there are :math:`s` tokens, each the subgraph of
    the graph on the nodes that :math:`M` random walks of :math:`\hat m` steps from the node have
    seen; then comes the node alone. A walk that can go nowhere stays where it is.

    Args:
        view (BatchView): The batch.
        max_length (int): The longest walk :math:`m`.
        num_samples (int): Tokens a length :math:`s`.
        num_walks (int): Walks a token :math:`M`.
        training (bool): Whether to draw the walks; if not, they are fixed by the number of each
            node within its graph.

    Returns:
        The tokens, :math:`T = m s + 1` a node.
    """
    num_nodes = view.num_nodes
    num_tokens = max_length * num_samples + 1
    # the targets of the edges of each node, side by side
    edge_order = torch.argsort(view.edge_index[0] * num_nodes + view.edge_index[1], stable=True)
    neighbors = view.edge_index[1, edge_order]
    count = degree(view.edge_index[0], num_nodes, torch.long)
    first = count.cumsum(0) - count

    nodes = torch.arange(num_nodes, device=view.graph.device)
    own_tokens = nodes * num_tokens
    walkers = num_samples * num_walks
    steps = max_length * (max_length + 1) // 2
    noise = node_noise(view.place, steps * walkers, training, torch.float64)
    # token * N + node, for each member
    keys = [(own_tokens + num_tokens - 1) * num_nodes + nodes]
    sample = torch.arange(walkers, device=nodes.device) // num_walks
    column = 0
    for length in range(max_length, 0, -1):
        # [N, s M]: where each walk is
        here = nodes.unsqueeze(1).expand(-1, walkers)
        token = own_tokens.unsqueeze(1) + (max_length - length) * num_samples + sample
        keys.append((token * num_nodes + here).flatten())
        for _ in range(length):
            draw = noise[:, column : column + walkers]
            column += walkers
            here = _step(here, draw, neighbors, first, count)
            keys.append((token * num_nodes + here).flatten())
    members = torch.cat(keys).unique()
    token, node = members // num_nodes, members % num_nodes

    # every edge of a member leads within its token or out of it
    repeats = count[node]
    source = torch.arange(node.size(0), device=nodes.device).repeat_interleave(repeats)
    start = (repeats.cumsum(0) - repeats)[source]
    edge = first[node[source]] + torch.arange(source.size(0), device=nodes.device) - start
    wanted = token[source] * num_nodes + neighbors[edge]
    target = torch.searchsorted(members, wanted).clamp(max=max(members.size(0) - 1, 0))
    is_inside = members[target] == wanted
    return WalkTokens(
        num_tokens,
        node=node,
        token=token,
        source=source[is_inside],
        target=target[is_inside],
        edge=edge_order[edge[is_inside]],
    )


def _step(here: Tensor, draw: Tensor, neighbors: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Moves each walk along an edge chosen by a number in [0, 1)."""
    if neighbors.numel() == 0:
        return here
    choices = count[here]
    choice = (draw * choices).long()
    place = (first[here] + choice).clamp(max=neighbors.numel() - 1)
    return torch.where(choices > 0, neighbors[place], here)
