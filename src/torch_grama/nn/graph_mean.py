"""The mean over the nodes of each graph of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def count_graphs(batch: Tensor | None, batch_size: int | None = None) -> int:
    r"""Returns the number of graphs: given, read off the batch vector, or one.

    Reading it off the batch vector waits for the device; pass :obj:`batch_size` to avoid that.
    """
    if batch_size is not None:
        return batch_size
    if batch is None:
        return 1
    return int(batch[-1]) + 1 if batch.numel() > 0 else 0


def graph_mean(
    sequence: Tensor, batch: Tensor | None = None, batch_size: int | None = None
) -> Tensor:
    r"""Averages a sequence over the nodes of each graph.

    Args:
        sequence (Tensor): The sequence :math:`(L, N, F)`.
        batch (Tensor, optional): The graph of each node :math:`(N)`, sorted.
            (default: :obj:`None`, one graph)
        batch_size (int, optional): The number of graphs :math:`B`. (default: :obj:`None`)

    Returns:
        The means :math:`(B, L, F)`; zero for a graph without nodes.
    """
    length, num_nodes, channels = sequence.size()
    # in half precision a sum of ones already stops growing at 256
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    if batch is None:
        mean = sequence.sum(dim=1, dtype=dtype).unsqueeze(0) / max(num_nodes, 1)
        return mean.to(sequence.dtype)
    num_graphs = count_graphs(batch, batch_size)
    ones = sequence.new_ones(num_nodes, dtype=dtype)
    count = ones.new_zeros(num_graphs).index_add_(0, batch, ones)
    # [L, N, F] -> [L, B, F] -> [B, L, F]
    total = ones.new_zeros(length, num_graphs, channels).index_add_(1, batch, sequence.to(dtype))
    mean = total / count.clamp(min=1).unsqueeze(-1)
    return mean.transpose(0, 1).to(sequence.dtype)
