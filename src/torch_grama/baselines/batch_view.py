"""The nodes of a batch of graphs, one by one or as one padded row per graph, and their noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_grama.nn.graph_input import GraphInput, PaddedLayout
from torch_grama.nn.padding import current_padding

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class BatchView:
    r"""A batch of graphs as the layers see it, read once a forward pass.

    Graphs without nodes are left out, so that no row of a padded batch is empty.
    """

    given: GraphInput  #: the batch as it was given, which keeps the matrices that layers share
    num_nodes: int  #: number of nodes :math:`N`
    edge_index: Tensor  #: edges :math:`(2, E)`, from source to target
    edge_weight: Tensor | None  #: edge weights :math:`(E)`, if any
    graph: Tensor  #: the row of each node's graph :math:`(N)`
    place: Tensor  #: the number of each node within its graph :math:`(N)`
    sizes: Tensor  #: the number of nodes of each graph :math:`(B)`
    layout: PaddedLayout  #: where the nodes lie in the padded batch

    @classmethod
    def of(cls, given: GraphInput) -> BatchView:
        r"""Reads the view off a batch that was checked at the door; its batch vector must be
        sorted.
        """
        num_nodes, batch = given.num_nodes, given.batch
        edges = given.edge_index, given.edge_weight
        nodes = torch.arange(num_nodes, device=given.edge_index.device)
        if batch is not None and current_padding() is not None:
            # a batch of fixed size is sorted, and all its graphs have nodes
            layout = PaddedLayout.of(batch, given.batch_size)
            sizes = given.groups.starts.diff().clamp(max=layout.max_size)
            place = layout.slot - batch * layout.max_size
            return cls(given, num_nodes, *edges, batch, place, sizes, layout)
        if batch is None:
            graph, place = torch.zeros_like(nodes), nodes
            sizes = torch.full((1,), num_nodes, device=nodes.device)
            max_size = num_nodes
        else:
            numbers, graph, sizes = torch.unique_consecutive(
                batch, return_inverse=True, return_counts=True
            )
            # dense layouts would mix graphs without a word
            if bool((numbers[1:] < numbers[:-1]).any()):
                raise ValueError(
                    "Expected 'batch' to be sorted: the nodes of a graph must lie together, in the "
                    "order of the graphs (torch_geometric.data.Batch makes it so)"
                )
            first = sizes.cumsum(0) - sizes
            place = nodes - first[graph]
            max_size = int(sizes.max()) if num_nodes > 0 else 0
        layout = PaddedLayout.of_places(graph, place, sizes, max_size)
        return cls(given, num_nodes, *edges, graph, place, sizes, layout)

    @property
    def num_graphs(self) -> int:
        r"""The number of graphs that have nodes."""
        return self.sizes.size(0)

    @property
    def max_size(self) -> int:
        r"""The number of nodes of the largest graph."""
        return self.layout.max_size

    @property
    def mask(self) -> Tensor | None:
        r"""Which places of the padded batch hold a node :math:`(B, n)`; :obj:`None` for all."""
        return None if self.num_graphs == 1 else ~self.layout.padding

    def pack(self, x: Tensor) -> Tensor:
        r"""Lays node states :math:`(N, F)` out as :math:`(B, n, F)`, zero where a row is padded."""
        return x.unsqueeze(0) if self.num_graphs == 1 else self.layout.lay_out(x)

    def unpack(self, dense: Tensor) -> Tensor:
        r"""Takes the node states :math:`(N, F)` out of a padded batch :math:`(B, n, F)`."""
        return dense[0] if self.num_graphs == 1 else self.layout.take_back(dense)

    def sort_nodes(self, key: Tensor) -> Tensor:
        r"""Returns the nodes :math:`(N)` in ascending order of :obj:`key` within each graph."""
        order = torch.argsort(key, stable=True)
        return order[torch.argsort(self.graph[order], stable=True)]

    def degrees(self) -> Tensor:
        r"""Returns the number of edges that leave each node :math:`(N)`."""
        return degree(self.edge_index[0], self.num_nodes, torch.long)


def node_noise(place: Tensor, columns: int, training: bool, dtype: torch.dtype) -> Tensor:
    r"""Returns noise in :math:`[0, 1)` for each node :math:`(N, K)`.

    In training it comes from PyTorch's global generator. At test time it is a hash of the number of
    the node within its graph: the same at every call, on every device, and for a graph alone as in
    a batch, but tied to how the nodes are numbered.
    """
    if training:
        return torch.rand(place.size(0), columns, dtype=dtype, device=place.device)
    column = torch.arange(columns, device=place.device)
    # a multiply-and-shift hash of 32 bits, carried in 64
    value = (place.unsqueeze(1) * 0x9E3779B1 + (column + 1) * 0x85EBCA6B) & _MASK
    for factor, shift in ((0x7FEB352D, 15), (0x046CA68B, 16)):
        value = ((value ^ (value >> shift)) * factor) & _MASK
    value = (value ^ (value >> 16)) >> 8
    return value.to(dtype) / 2**24
