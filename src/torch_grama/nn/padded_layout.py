"""Where the nodes of a batch of graphs lie in a tensor with one padded row a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PaddedLayout:
    r"""The places of :math:`N` nodes in a padded batch of :math:`B` rows of :math:`n` nodes.

    Reading it off a batch vector waits for the device once, for the size of the largest graph;
    laying nodes out and taking them back does not.

    Attributes:
        num_graphs: Number of graphs :math:`B`.
        max_size: Nodes of the largest graph :math:`n`.
        slot: The place of each node, rows laid end to end :math:`(N)`.
        padding: Which places hold no node :math:`(B, n)`.
    """

    num_graphs: int
    max_size: int
    slot: Tensor
    padding: Tensor

    @classmethod
    def of(cls, batch: Tensor, batch_size: int) -> PaddedLayout:
        r"""Reads the layout off a sorted batch vector.

        Args:
            batch (Tensor): The graph of each node :math:`(N)`, sorted.
            batch_size (int): Number of graphs.
        """
        nodes = torch.arange(batch.numel(), device=batch.device)
        sizes = torch.zeros(batch_size, dtype=torch.long, device=batch.device)
        sizes = sizes.scatter_add(0, batch, torch.ones_like(batch))
        first = sizes.cumsum(0) - sizes
        max_size = int(sizes.max()) if batch_size > 0 else 0
        places = torch.arange(max_size, device=batch.device)
        return cls(
            num_graphs=batch_size,
            max_size=max_size,
            slot=batch * max_size + (nodes - first[batch]),
            padding=places >= sizes.unsqueeze(1),
        )

    def lay_out(self, x: Tensor) -> Tensor:
        r"""Lays node states :math:`(N, F)` out as :math:`(B, n, F)`, zero where a row is padded."""
        flat = x.new_zeros(self.num_graphs * self.max_size, x.size(-1))
        return flat.index_copy(0, self.slot, x).view(self.num_graphs, self.max_size, -1)

    def take_back(self, dense: Tensor) -> Tensor:
        r"""Takes node states :math:`(N, F)` out of a padded batch :math:`(B, n, F)`."""
        return dense.flatten(0, 1).index_select(0, self.slot)
