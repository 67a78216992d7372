"""The graph side of a forward pass, checked once at the door."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.graph_mean import count_graphs
from torch_grama.nn.padded_layout import PaddedLayout


@dataclass(frozen=True, eq=False)
class GraphInput:
    r"""A batch of graphs as the blocks see it.

    Attributes:
        num_nodes: Number of nodes :math:`N`.
        edge_index: Edges :math:`(2, E)`, from source to target.
        edge_weight: Edge weights :math:`(E)`, if any.
        edge_attr: Edge attributes :math:`(E, C)`, if any.
        batch: The graph of each node :math:`(N)`, sorted; :obj:`None` for one graph.
        batch_size: Number of graphs :math:`B`.
        adjacencies: Normalised matrices made so far, shared by all blocks of a forward pass.
        layouts: The layout of a padded batch, once it was asked for; likewise.
    """

    num_nodes: int
    edge_index: Tensor
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int = 1
    adjacencies: dict[Hashable, Adjacency] = field(default_factory=dict)
    layouts: list[PaddedLayout] = field(default_factory=list)

    @cached_property
    def groups(self) -> Groups:
        r"""The graphs of the batch, for the engines."""
        return Groups(self.batch, self.batch_size)

    @property
    def layout(self) -> PaddedLayout | None:
        r"""Where nodes lie in a padded batch, for attention; :obj:`None` for one graph."""
        if self.batch is None:
            return None
        # a cached_property takes a lock, which torch.compile cannot follow
        if not self.layouts:
            self.layouts.append(PaddedLayout.of(self.batch, self.batch_size))
        return self.layouts[0]

    def adjacency(self, key: Hashable, build: Callable[[], Adjacency]) -> Adjacency:
        r"""Returns the matrix called :obj:`key`, building it when it is first asked for."""
        if key not in self.adjacencies:
            self.adjacencies[key] = build()
        return self.adjacencies[key]


def read_graph_input(
    num_nodes: int,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    adjacencies: dict[Hashable, Adjacency] | None = None,
) -> GraphInput:
    r"""Checks sizes and types of the graph side of a forward pass.

    A sparse tensor in place of :obj:`edge_index` is read as PyG's transposed adjacency matrix.

    Raises:
        TypeError: If a tensor has the wrong type.
        ValueError: If a tensor has the wrong size.
    """
    if is_torch_sparse_tensor(edge_index):
        if edge_weight is not None:
            raise ValueError(
                "Expected no 'edge_weight' beside a sparse 'edge_index', whose values are the "
                "weights (pass one of the two)"
            )
        (target, source), value = to_edge_index(edge_index)
        edge_index = torch.stack([source, target])
        # a matrix of ones is a graph without weights, for backbones that cannot use any
        is_plain = not value.requires_grad and bool((value == 1).all())
        edge_weight = None if is_plain else value
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"Expected 'edge_index' to be a Tensor (got {type(edge_index).__name__})")
    if edge_index.dtype != torch.long:
        raise TypeError(
            f"Expected 'edge_index' to hold int64 node numbers (got {edge_index.dtype}); "
            f"convert it with edge_index.long()"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"Expected 'edge_index' to have shape [2, num_edges] (got {list(edge_index.size())})"
        )
    num_edges = edge_index.size(1)
    if edge_weight is not None and tuple(edge_weight.size()) != (num_edges,):
        raise ValueError(
            f"Expected 'edge_weight' to have shape [{num_edges}], one weight an edge "
            f"(got {list(edge_weight.size())})"
        )
    if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.size(0) != num_edges):
        raise ValueError(
            f"Expected 'edge_attr' to have shape [{num_edges}, edge_dim], one row an edge "
            f"(got {list(edge_attr.size())})"
        )
    if batch is not None:
        if batch.dtype != torch.long:
            raise TypeError(f"Expected 'batch' to hold int64 graph numbers (got {batch.dtype})")
        if tuple(batch.size()) != (num_nodes,):
            raise ValueError(
                f"Expected 'batch' to have shape [{num_nodes}], one graph number a node "
                f"(got {list(batch.size())})"
            )
    elif batch_size is not None and batch_size != 1:
        raise ValueError(
            f"Expected a 'batch' vector for more than one graph (got batch_size={batch_size})"
        )
    return GraphInput(
        num_nodes=num_nodes,
        edge_index=edge_index,
        edge_weight=edge_weight,
        edge_attr=edge_attr,
        batch=batch,
        batch_size=count_graphs(batch, batch_size),
        adjacencies={} if adjacencies is None else adjacencies,
    )


def check_values(x: Tensor, graph: GraphInput, pe: Tensor | None = None) -> None:
    r"""Checks what only the values can tell, with one wait for the device.

    Args:
        x (Tensor): Node features :math:`(N, *)`.
        graph (GraphInput): The graph.
        pe (Tensor, optional): Positional encodings. (default: :obj:`None`)

    Raises:
        ValueError: For node numbers outside the graph, an unsorted batch vector, graph numbers
            outside the batch, or features that are not finite.
    """
    nothing_wrong = torch.zeros((), dtype=torch.bool, device=x.device)
    edge_index, batch = graph.edge_index, graph.batch
    out_of_range = nothing_wrong
    if edge_index.numel() > 0:
        out_of_range = (edge_index.min() < 0) | (edge_index.max() >= graph.num_nodes)
    unsorted, too_many = nothing_wrong, nothing_wrong
    if batch is not None and batch.numel() > 0:
        unsorted = (batch[1:] < batch[:-1]).any() | (batch[0] < 0)
        too_many = batch[-1] >= graph.batch_size
    # A sum is finite only if every term is, and needs no mask of the features' size; an overflow
    # of finite terms is told apart below.
    features = [
        (name, feature)
        for name, feature in (
            ("node features", x),
            ("'edge_weight'", graph.edge_weight),
            ("'edge_attr'", graph.edge_attr),
            ("'pe'", pe),
        )
        if feature is not None and feature.is_floating_point()
    ]
    not_finite = [~torch.isfinite(feature.sum()) for _, feature in features]
    faults = torch.stack([out_of_range, unsorted, too_many, *not_finite]).tolist()
    if not any(faults):
        return
    if faults[0]:
        raise ValueError(
            f"Expected 'edge_index' to hold node numbers between 0 and {graph.num_nodes - 1} "
            f"(got {int(edge_index.min())} to {int(edge_index.max())} for {graph.num_nodes} nodes)"
        )
    if faults[1]:
        raise ValueError(
            "Expected 'batch' to be sorted: the nodes of a graph must lie together, in the order "
            "of the graphs (torch_geometric.data.Batch makes it so)"
        )
    if faults[2]:
        raise ValueError(
            f"Expected graph numbers in 'batch' below batch_size={graph.batch_size} "
            f"(got {int(batch[-1]) if batch is not None else 0})"
        )
    for name, feature in features:
        bad = ~torch.isfinite(feature)
        if bool(bad.any()):
            row = int(bad.flatten(1).any(dim=1).nonzero()[0] if bad.dim() > 1 else bad.nonzero()[0])
            raise ValueError(
                f"Expected finite {name} (got {int(bad.sum())} that are NaN or infinite, the first "
                f"in row {row}); repair them, or pass check_input=False to let them through"
            )
