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
        return cls.of_places(batch, nodes - first[batch], sizes, max_size)

    @classmethod
    def of_places(cls, graph: Tensor, place: Tensor, sizes: Tensor, max_size: int) -> PaddedLayout:
        r"""Makes the layout from what is known of the batch, without a wait.

        Args:
            graph (Tensor): The graph of each node :math:`(N)`.
            place (Tensor): The number of each node within its graph :math:`(N)`.
            sizes (Tensor): The number of nodes of each graph :math:`(B)`.
            max_size (int): The largest of them.
        """
        places = torch.arange(max_size, device=sizes.device)
        return cls(
            num_graphs=sizes.size(0),
            max_size=max_size,
            slot=graph * max_size + place,
            padding=places >= sizes.unsqueeze(1),
        )

    def lay_out(self, x: Tensor) -> Tensor:
        r"""Lays node states :math:`(N, F)` out as :math:`(B, n, F)`, zero where a row is padded."""
        rows = self.num_graphs * self.max_size
        flat = x.new_zeros(rows, x.size(-1)).index_copy(0, self.slot, x)
        return flat.view(self.num_graphs, self.max_size, x.size(-1))

    def take_back(self, dense: Tensor) -> Tensor:
        r"""Takes node states :math:`(N, F)` out of a padded batch :math:`(B, n, F)`."""
        return dense.flatten(0, 1).index_select(0, self.slot)
