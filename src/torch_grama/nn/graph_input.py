"""The graph side of a forward pass, checked once at the door."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.sequence import Groups, count_graphs
from torch_grama.nn.padding import current_padding


@dataclass(frozen=True, eq=False)
class PaddedLayout:
    r"""The places of :math:`N` nodes in a padded batch of :math:`B` rows of :math:`n` nodes.

    Reading it off a batch vector waits for the device once, for the size of the largest graph,
    unless the batch has a fixed size; laying nodes out and taking them back does not. Slots number
    the rows laid end to end.
    """

    num_graphs: int
    max_size: int
    slot: Tensor
    padding: Tensor

    @classmethod
    def of(cls, batch: Tensor, batch_size: int) -> PaddedLayout:
        r"""Reads the layout off a sorted batch vector."""
        nodes = torch.arange(batch.numel(), device=batch.device)
        sizes = torch.zeros(batch_size, dtype=torch.long, device=batch.device)
        sizes = sizes.scatter_add(0, batch, torch.ones_like(batch))
        first = sizes.cumsum(0) - sizes
        place = nodes - first[batch]
        fixed = current_padding()
        if fixed is not None:
            # the graph that takes the padding may be the largest; nobody reads its nodes
            max_size = fixed.max_graph_size
            place = place.clamp(max=max_size - 1)
        else:
            # an exporter follows item(), and rows of which it knows that they are no single nodes
            max_size = cast(int, sizes.max().clamp(min=2).item()) if batch_size > 0 else 0
            torch._check(batch_size == 0 or max_size >= 2)
        return cls.of_places(batch, place, sizes, max_size)

    @classmethod
    def of_places(cls, graph: Tensor, place: Tensor, sizes: Tensor, max_size: int) -> PaddedLayout:
        r"""Makes it without a wait, from the place of each node within its graph."""
        places = torch.arange(max_size, device=sizes.device)
        padding = places >= sizes.unsqueeze(1)
        return cls(sizes.size(0), max_size, graph * max_size + place, padding)

    def lay_out(self, x: Tensor) -> Tensor:
        r"""Lays node states :math:`(N, F)` out as :math:`(B, n, F)`, zero where a row is padded."""
        rows = self.num_graphs * self.max_size
        flat = x.new_zeros(rows, x.size(-1)).index_copy(0, self.slot, x)
        return flat.view(self.num_graphs, self.max_size, x.size(-1))

    def take_back(self, dense: Tensor) -> Tensor:
        r"""Takes node states :math:`(N, F)` out of a padded batch :math:`(B, n, F)`."""
        return dense.flatten(0, 1).index_select(0, self.slot)


@dataclass(frozen=True, eq=False)
class GraphInput:
    r"""A batch of graphs as the blocks see it.

    What is made when it is first asked for, all blocks of a forward pass share: normalised
    matrices, the layout of a padded batch, the groups. With :obj:`senders`, edges come from other
    nodes than those of the batch; these are their states, which do not change. The first block
    adds :obj:`x_0`, its newest state, if its backbone asks for it.
    """

    num_nodes: int
    edge_index: Tensor
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int = 1
    edge_type: Tensor | None = None
    senders: Tensor | None = None
    x_0: Tensor | None = None
    adjacencies: dict[Hashable, Adjacency] = field(default_factory=dict)
    layouts: list[PaddedLayout] = field(default_factory=list)
    all_groups: list[Groups] = field(default_factory=list)

    @property
    def groups(self) -> Groups:
        # a cached_property takes a lock, which torch.compile cannot follow
        if not self.all_groups:
            self.all_groups.append(Groups(self.batch, self.batch_size))
        return self.all_groups[0]

    @property
    def layout(self) -> PaddedLayout | None:
        r"""Where nodes lie in a padded batch, for attention; :obj:`None` for one graph."""
        if self.batch is None:
            return None
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
    edge_type: Tensor | None = None,
    senders: Tensor | None = None,
) -> GraphInput:
    r"""Checks sizes and types of the graph side of a forward pass.

    A sparse tensor in place of :obj:`edge_index` is read as PyG's transposed adjacency matrix.
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
            f"Expected 'edge_weight' to have shape [{num_edges}], one weight per edge "
            f"(got {list(edge_weight.size())})"
        )
    if edge_type is not None and tuple(edge_type.size()) != (num_edges,):
        raise ValueError(
            f"Expected 'edge_type' to have shape [{num_edges}], one type per edge "
            f"(got {list(edge_type.size())})"
        )
    if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.size(0) != num_edges):
        raise ValueError(
            f"Expected 'edge_attr' to have shape [{num_edges}, edge_dim], one row per edge "
            f"(got {list(edge_attr.size())})"
        )
    if batch is not None:
        if batch.dtype != torch.long:
            raise TypeError(f"Expected 'batch' to hold int64 graph numbers (got {batch.dtype})")
        if tuple(batch.size()) != (num_nodes,):
            raise ValueError(
                f"Expected 'batch' to have shape [{num_nodes}], one graph number per node "
                f"(got {list(batch.size())})"
            )
    elif batch_size is not None and batch_size != 1:
        raise ValueError(
            f"Expected a 'batch' vector for more than one graph (got batch_size={batch_size})"
        )
    num_graphs = count_graphs(batch, batch_size)
    return GraphInput(
        num_nodes, edge_index, edge_weight, edge_attr, batch, num_graphs, edge_type, senders
    )


def check_values(x: Tensor, graph: GraphInput, cached: GraphInput | None = None) -> None:
    r"""Checks what only the values can tell, with one wait for the device; the sizes of a cached
    graph were compared before.
    """
    nothing_wrong = torch.zeros((), dtype=torch.bool, device=x.device)
    edge_index, batch = graph.edge_index, graph.batch
    out_of_range = nothing_wrong
    num_senders = graph.num_nodes if graph.senders is None else graph.senders.size(0)
    if edge_index.numel() > 0:
        source, target = edge_index.amax(dim=1)
        beyond = (source >= num_senders) | (target >= graph.num_nodes)
        out_of_range = beyond | (edge_index.min() < 0)
    unsorted, too_many = nothing_wrong, nothing_wrong
    if batch is not None and batch.numel() > 0:
        unsorted = (batch[1:] < batch[:-1]).any() | (batch[0] < 0)
        too_many = batch[-1] >= graph.batch_size
    # A sum is finite only if every term is, and needs no mask of the features' size; an overflow
    # of finite terms is told apart below.
    given = {"node features": x, "'edge_weight'": graph.edge_weight, "'edge_attr'": graph.edge_attr}
    features = {k: t for k, t in given.items() if t is not None and t.is_floating_point()}
    not_finite = [~torch.isfinite(feature.sum()) for feature in features.values()]
    differs = nothing_wrong if cached is None else _differs(graph, cached)
    faults = torch.stack([out_of_range, unsorted, too_many, differs, *not_finite]).tolist()
    if not any(faults):
        return
    if faults[0]:
        raise ValueError(
            f"Expected 'edge_index' to hold node numbers between 0 and {graph.num_nodes - 1} "
            f"(got {int(edge_index.min())} to {int(edge_index.max())} for {graph.num_nodes} nodes"
            f"{'' if graph.senders is None else f' and {num_senders} that send'})"
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
    if faults[3]:
        raise _another_graph()
    for name, feature in features.items():
        bad = ~torch.isfinite(feature)
        if bool(bad.any()):
            row = int(bad.flatten(1).any(dim=1).nonzero()[0] if bad.dim() > 1 else bad.nonzero()[0])
            raise ValueError(
                f"Expected finite {name} (got {int(bad.sum())} that are NaN or infinite, the first "
                f"in row {row}); repair them, or pass running=Running(check_input=False) to let "
                f"them through"
            )


def count_nodes(x: Tensor, in_channels: int, seq_len: int) -> int:
    r"""Checks node features, static or a sequence of them, and returns the number of nodes."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"Expected node features as a Tensor (got {type(x).__name__}); for several types of "
            "nodes, build a model of GRAMAConv layers, which to_hetero and HeteroConv can take"
        )
    if x.dim() not in (2, 3):
        raise ValueError(
            f"Expected 'x' of shape [num_nodes, channels] or [num_nodes, L, channels] "
            f"(got {list(x.size())})"
        )
    if not x.is_floating_point():
        raise TypeError(
            f"Expected floating point node features (got {x.dtype}); convert them with "
            f"x.float(), or embed categories first, for example with CategoricalEncoder"
        )
    if in_channels != -1 and x.size(-1) != in_channels:
        raise ValueError(
            f"Expected node features of width in_channels={in_channels} (got {x.size(-1)})"
        )
    if x.dim() == 3 and x.size(1) != seq_len:
        raise ValueError(
            f"Expected a sequence of length seq_len={seq_len} in the layout "
            f"[num_nodes, L, channels] (got {list(x.size())})"
        )
    return x.size(0)


def check_edge_attr(edge_attr: Tensor | None, edge_dim: int | None, backbone_is_word: bool) -> None:
    r"""Checks edge attributes against what the model was built for: a word has them encoded,
    a user's module gets them as they are, and may read whatever it likes.
    """
    if edge_dim is None:
        if edge_attr is not None and backbone_is_word:
            raise ValueError(
                "Expected no 'edge_attr' (got one, but the model was built without edge_dim, "
                "the width of the edge attributes)"
            )
        return
    if edge_attr is None:
        raise ValueError(f"Expected 'edge_attr' (the model has edge_dim={edge_dim})")
    if edge_attr.dim() != 2 or edge_attr.size(1) != edge_dim:
        raise ValueError(
            f"Expected 'edge_attr' of shape [num_edges, edge_dim={edge_dim}] "
            f"(got {list(edge_attr.size())})"
        )
    if backbone_is_word and not edge_attr.is_floating_point():
        raise TypeError(
            f"Expected floating point edge attributes (got {edge_attr.dtype}); convert them with "
            f"edge_attr.float(), or embed categories first, for example with CategoricalEncoder"
        )


def check_cached_size(graph: GraphInput, cached: GraphInput) -> None:
    r"""Raises a :class:`ValueError` if a graph has another size than the one that was cached."""
    sizes = [(g.num_nodes, g.edge_index.size(1), g.edge_weight is None) for g in (graph, cached)]
    if sizes[0] != sizes[1]:
        raise _another_graph(
            f" ({cached.num_nodes} nodes and {cached.edge_index.size(1)} edges, got "
            f"{graph.num_nodes} and {graph.edge_index.size(1)})"
        )


def _differs(graph: GraphInput, cached: GraphInput) -> Tensor:
    differs = torch.zeros((), dtype=torch.bool, device=graph.edge_index.device)
    for new, old in (
        (graph.edge_index, cached.edge_index),
        (graph.edge_weight, cached.edge_weight),
    ):
        if new is not None and old is not None:
            differs = differs | (new != old).any()
    return differs


def _another_graph(sizes: str = "") -> ValueError:
    return ValueError(
        f"Expected the graph of the first forward pass, whose matrix was cached{sizes}; build the "
        f"model without cached=True for graphs that change, or call reset_cache()"
    )
