"""The rings of neighbours of all nodes, found once for each graph."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.baselines.graph_memo import GraphMemo
from torch_grama.baselines.hop_pairs import hop_pairs


class HopRings:
    r"""Splits the pairs of nodes of a graph by their distance.

    Args:
        max_hops (int): The largest distance.
        cached (bool): Whether to remember each graph that has been seen (see
            :class:`~torch_grama.baselines.graph_memo.GraphMemo`). Without it, the rings are found
            anew at every call, for the whole batch at once.
    """

    def __init__(self, max_hops: int, cached: bool) -> None:
        self.max_hops = max_hops
        self.memo = GraphMemo(self._compute) if cached else None

    def _compute(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Tensor, Tensor]:
        return hop_pairs(edge_index, num_nodes, self.max_hops)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def find(
        self,
        edge_index: Tensor,
        num_nodes: int,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> list[Tensor]:
        r"""Returns one edge index for each distance from 1 to :obj:`max_hops`; the last may be
        empty.

        Args:
            edge_index (Tensor): Edges :math:`(2, E)`.
            num_nodes (int): Number of nodes.
            batch (Tensor, optional): The graph of each node. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)
        """
        if self.memo is None:
            pairs, distance = hop_pairs(edge_index, num_nodes, self.max_hops)
        else:
            pairs, distance = self.memo.find(edge_index, None, num_nodes, batch, batch_size)
        # short keys are sorted faster
        order = (distance.short() if self.max_hops < 2**15 else distance).argsort(stable=True)
        sizes = torch.bincount(distance, minlength=self.max_hops + 1)[1:].tolist()
        return list(pairs[:, order].split(sizes, dim=1))
