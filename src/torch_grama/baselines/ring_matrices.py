"""The rings of neighbours of all nodes, found once for each graph."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.baselines.graph_memo import GraphMemo
from torch_grama.baselines.hop_pairs import hop_pairs
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.linear_backbone import gcn_adjacency, sum_adjacency


class RingMatrices:
    r"""The pairs of nodes of a graph as one matrix for each distance.

    Args:
        max_hops (int): The largest distance.
        cached (bool): Whether to remember each graph that has been seen (see
            :class:`~torch_grama.baselines.graph_memo.GraphMemo`). Without it, the rings are found
            anew at every call, for the whole batch at once.
        normalize (bool): Whether each ring is divided by the roots of the sizes of the rings of
            both ends.
    """

    def __init__(self, max_hops: int, cached: bool, normalize: bool) -> None:
        self.max_hops = max_hops
        self.normalize = normalize
        self.memo = GraphMemo(self._compute) if cached else None
        self._last: tuple[Tensor, torch.dtype, list[Adjacency]] | None = None

    def _compute(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Tensor, Tensor]:
        pairs, distance = hop_pairs(edge_index, num_nodes, self.max_hops)
        return pairs, distance.int()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def find(
        self,
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> list[Adjacency]:
        r"""Returns one matrix for each distance from 1 to :obj:`max_hops`; the last may be empty.

        Args:
            edge_index (Tensor): Edges :math:`(2, E)`.
            num_nodes (int): Number of nodes.
            dtype (torch.dtype): Type of the matrices.
            batch (Tensor, optional): The graph of each node. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)
        """
        if self.memo is None:
            return self._split(*hop_pairs(edge_index, num_nodes, self.max_hops), num_nodes, dtype)
        pairs, distance = self.memo.find(edge_index, None, num_nodes, batch, batch_size)
        if self._last is None or self._last[0] is not pairs or self._last[1] != dtype:
            # kept with all that is prepared for products, for the next step on the same graph
            with torch.inference_mode(False), torch.no_grad():
                rings = self._split(pairs, distance, num_nodes, dtype)
            self._last = pairs, dtype, rings
        return self._last[2]

    def _split(
        self, pairs: Tensor, distance: Tensor, num_nodes: int, dtype: torch.dtype
    ) -> list[Adjacency]:
        if bool((distance[1:] < distance[:-1]).any()):
            order = distance.argsort(stable=True)
            pairs = pairs[:, order]
        sizes = torch.bincount(distance, minlength=self.max_hops + 1)[1:].tolist()
        rings = pairs.split(sizes, dim=1)
        if self.normalize:
            return [gcn_adjacency(ring, None, num_nodes, dtype, None) for ring in rings]
        return [sum_adjacency(ring, None, num_nodes, dtype) for ring in rings]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}
