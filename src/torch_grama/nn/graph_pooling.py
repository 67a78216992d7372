"""From the states of nodes to one vector a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from torch_grama.nn.choices import choose
from torch_grama.nn.graph_mean import count_graphs, graph_mean

# Each word and what it concatenates.
POOLINGS: dict[str, tuple[str, ...]] = {
    "mean": ("mean",),
    "sum": ("sum",),
    "max": ("max",),
    "sum-max-mean": ("sum", "max", "mean"),
}


def pooled_channels(channels: int, pooling: str) -> int:
    r"""Returns the width of a pooled state.

    Args:
        channels (int): Width of the states of nodes.
        pooling (str): ``"mean"``, ``"sum"``, ``"max"`` or ``"sum-max-mean"``.

    Raises:
        ValueError: If there is no such pooling.
    """
    return channels * len(choose("pooling", pooling, POOLINGS))


def pool_graphs(
    x: Tensor,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    pooling: str = "mean",
) -> Tensor:
    r"""Pools the nodes of each graph.

    Args:
        x (Tensor): States of nodes :math:`(N, F)`.
        batch (Tensor, optional): The graph of each node :math:`(N)`, sorted.
            (default: :obj:`None`, one graph)
        batch_size (int, optional): The number of graphs :math:`B`. (default: :obj:`None`)
        pooling (str, optional): ``"mean"``, ``"sum"``, ``"max"``, or all three side by side as
            ``"sum-max-mean"``. (default: :obj:`"mean"`)

    Returns:
        One row a graph :math:`(B, F)` or :math:`(B, 3 F)`; zero for a graph without nodes.

    Example:
        >>> x = torch.tensor([[1.0], [3.0], [5.0]])
        >>> pool_graphs(x, torch.tensor([0, 0, 1]), pooling="sum-max-mean").tolist()
        [[4.0, 3.0, 2.0], [5.0, 5.0, 5.0]]
    """
    parts = [_pool(x, batch, batch_size, part) for part in choose("pooling", pooling, POOLINGS)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _pool(x: Tensor, batch: Tensor | None, batch_size: int | None, part: str) -> Tensor:
    if part == "mean":
        return graph_mean(x.unsqueeze(0), batch, batch_size).squeeze(1)
    if batch is None:
        if part == "sum":
            return x.sum(dim=0, keepdim=True)
        return x.amax(dim=0, keepdim=True) if x.size(0) else x.new_zeros(1, x.size(1))
    return scatter(x, batch, dim=0, dim_size=count_graphs(batch, batch_size), reduce=part)
