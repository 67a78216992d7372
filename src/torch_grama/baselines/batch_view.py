"""The nodes of a batch of graphs, one by one or as one padded row a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import degree

from torch_grama.nn.graph_input import PaddedLayout, read_graph_input
from torch_grama.nn.padding import current_padding


@dataclass(frozen=True, eq=False)
class BatchView:
    r"""A batch of graphs as the layers see it, read once a forward pass.

    Graphs without nodes are left out, so that no row of a padded batch is empty.

    Attributes:
        num_nodes: Number of nodes :math:`N`.
        edge_index: Edges :math:`(2, E)`, from source to target.
        edge_weight: Edge weights :math:`(E)`, if any.
        graph: The row of each node's graph :math:`(N)`.
        place: The number of each node within its graph :math:`(N)`.
        sizes: The number of nodes of each graph :math:`(B)`.
        layout: Where the nodes lie in the padded batch.
    """

    num_nodes: int
    edge_index: Tensor
    edge_weight: Tensor | None
    graph: Tensor
    place: Tensor
    sizes: Tensor
    layout: PaddedLayout

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


def read_batch(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> BatchView:
    r"""Checks the graph side of a model's call and reads it.

    Raises:
        TypeError: If a tensor has the wrong type.
        ValueError: If a tensor has the wrong size, or the batch vector is not sorted.
    """
    num_nodes = x.size(0)
    given = read_graph_input(num_nodes, edge_index, edge_weight, edge_attr, batch, batch_size)
    nodes = torch.arange(num_nodes, device=x.device)
    if batch is not None and current_padding() is not None:
        # a batch of fixed size is sorted, and all its graphs have nodes
        layout = PaddedLayout.of(batch, given.batch_size)
        sizes = given.groups.starts.diff().clamp(max=layout.max_size)
        place = layout.slot - batch * layout.max_size
        return BatchView(
            num_nodes, given.edge_index, given.edge_weight, batch, place, sizes, layout
        )
    if batch is None:
        graph, place = torch.zeros_like(nodes), nodes
        sizes = torch.full((1,), num_nodes, device=x.device)
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
    return BatchView(
        num_nodes,
        given.edge_index,
        given.edge_weight,
        graph,
        place,
        sizes,
        layout=PaddedLayout.of_places(graph, place, sizes, max_size),
    )
