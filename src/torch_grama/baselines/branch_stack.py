"""Layers of several branches: local message passing beside what sees a graph as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv
from torch_geometric.utils import degree

from torch_grama.baselines.layer_stack import ConvLayer, EdgeOptions, EncodedModel
from torch_grama.nn.arguments import choose
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.graph_input import GraphInput, PaddedLayout
from torch_grama.nn.neighbor_convs import build_aggregation
from torch_grama.nn.norms import StepwiseBatchNorm
from torch_grama.nn.padding import current_padding


class FramedModel(EncodedModel):
    r"""A model whose layers are branches in a :class:`BranchSum`.

    Args:
        dropout (float, optional): Dropout inside the layers.
    """

    drops_ends = False
    locals: ModuleList

    def build_frames(self, num_branches: int) -> ModuleList:
        r"""Returns the :class:`BranchSum` of each layer."""
        return self.per_layer(lambda: BranchSum(self.hidden_channels, num_branches, self.dropout))

    def build_locals(self, local: str) -> ModuleList:
        r"""Returns the local branches of all layers."""
        build = choose("local", local, LOCAL_LAYERS)
        if local == "gcn" and self.edge_dim is not None:
            raise ValueError(
                "Expected a local branch that uses edge attributes (got local='gcn' with edge_dim "
                "set); use 'gatedgcn', 'gine' or 'gat'"
            )
        self.ignores_edge_weight = local != "gcn"
        return ModuleList(build(self, layer) for layer in range(self.num_layers))


class BranchStack(FramedModel):
    r"""Layers of a local and a global branch, which a subclass chooses.

    Args:
        build_mixer (callable): Makes the global branch of a layer from the width of the states,
            called as ``mixer(x, view)``.
    """

    ignores_edge_weight: bool = True

    def __init__(
        self,
        *sizes: int,
        local: str | None,
        build_mixer: Callable[[int], Module],
        **shared: Unpack[EdgeOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.locals = ModuleList() if local is None else self.build_locals(local)
        self.mixers = self.per_layer(lambda: build_mixer(self.hidden_channels))
        self.frames = self.build_frames(1 if local is None else 2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        for layer, (mixer, frame) in enumerate(zip(self.mixers, self.frames, strict=True)):
            branches = [mixer(x, view)]
            if len(self.locals) > 0:
                update, edge_state = self.locals[layer](x, graph, edge_state)
                branches.append(update)
            x = frame(x, branches)
        return x


class BranchSum(Module):
    r"""Residual branches :math:`\mathbf{u}_k` side by side, then a feed-forward part of twice the
    width: :math:`\mathbf{h} = \sum_k \mathrm{BN}_k (\mathbf{x} + \mathbf{u}_k)`, :math:`\mathbf{x}'
    = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h}))`. A batch of a single node has no variance
    and is normalised with the running statistics.
    """

    def __init__(self, channels: int, num_branches: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.branch_norms = ModuleList(StepwiseBatchNorm(channels) for _ in range(num_branches))
        self.mlp = Sequential(
            Linear(channels, 2 * channels),
            ReLU(),
            Dropout(dropout),
            Linear(2 * channels, channels),
            Dropout(dropout),
        )
        self.norm = StepwiseBatchNorm(channels)

    def forward(self, x: Tensor, branches: Sequence[Tensor]) -> Tensor:
        hidden = x.new_zeros(())
        for norm, branch in zip(self.branch_norms, branches, strict=True):
            hidden = hidden + norm(x + F.dropout(branch, self.dropout, self.training))
        out: Tensor = self.norm(hidden + self.mlp(hidden))
        return out


class GatedGCNBranch(Module):
    r"""A :class:`~torch_grama.nn.GatedGCNConv` with ReLU, which also updates the edge state; it
    starts one where none is given, and leaves it where nobody will read it.
    """

    def __init__(
        self, channels: int, has_edge_state: bool, dropout: float, is_last: bool = False
    ) -> None:
        super().__init__()
        edge_state = "none" if is_last else "block"
        self.conv = GatedGCNConv(channels, has_edge_state, edge_state=edge_state)
        self.dropout = dropout

    def forward(
        self, x: Tensor, graph: GraphInput, edge_state: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        out, new_state = self.conv(x, graph.edge_index, edge_state)
        if edge_state is not None and self.dropout > 0:
            update = F.dropout(new_state - edge_state, self.dropout, self.training)
            new_state = edge_state + update
        return F.relu(out), new_state


def _gcn(model: EncodedModel, layer: int) -> Module:
    channels = model.hidden_channels
    return _bare_layer(GCNConv(channels, channels), model)  # type: ignore[abstract]


def _gat(model: EncodedModel, layer: int) -> Module:
    """Of up to four heads."""
    channels = model.hidden_channels
    heads = next(heads for heads in (4, 2, 1) if channels % heads == 0)
    edge_dim = None if model.edge_dim is None else channels
    conv = GATConv(channels, channels // heads, heads, edge_dim=edge_dim)  # type: ignore[abstract]
    return _bare_layer(conv, model)


def _gine(model: EncodedModel, layer: int, aggregation: str = "sum") -> Module:
    """With an MLP of two layers; without edge attributes GIN with the same MLP. The aggregation
    ``"multi"`` is a linear map of sum, mean, maximum and minimum."""
    channels = model.hidden_channels
    mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
    conv = GINConv if model.edge_dim is None else GINEConv
    return _bare_layer(conv(mlp, aggr=build_aggregation(aggregation, channels)), model)  # type: ignore[abstract]


def _bare_layer(conv: Module, model: EncodedModel) -> Module:
    """A convolution and nothing around it, which hands the edge states on as they came."""
    return ConvLayer(conv, model.hidden_channels, model.hidden_channels, act=None)


def _gated_gcn(model: EncodedModel, layer: int) -> Module:
    """The first layer has edge states if there are attributes, the others in any case."""
    has_edge_state = model.edge_dim is not None or layer > 0
    is_last = layer == model.num_layers - 1
    return GatedGCNBranch(model.hidden_channels, has_edge_state, model.dropout, is_last)


LOCAL_LAYERS: dict[str, Callable[[EncodedModel, int], Module]] = {
    "gcn": _gcn,
    "gat": _gat,
    "gine": _gine,
    "gine-multi": partial(_gine, aggregation="multi"),
    "gatedgcn": _gated_gcn,
}
"""Word to what makes the branch of a layer of a model."""

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class BatchView:
    r"""A batch of graphs as the layers see it, read once a forward pass. Graphs without nodes are
    left out, so that no row of a padded batch is empty; no nodes at all are one empty graph.
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
        r"""Reads the view off a batch, whose batch vector must be sorted."""
        num_nodes, batch = given.num_nodes, given.batch
        edges = given.edge_index, given.edge_weight
        nodes = torch.arange(num_nodes, device=given.edge_index.device)
        if batch is not None and current_padding() is not None:
            # a batch of fixed size is sorted, and all its graphs have nodes
            layout = PaddedLayout.of(batch, given.batch_size)
            sizes = given.groups.starts.diff().clamp(max=layout.max_size)
            place = layout.slot - batch * layout.max_size
            return cls(given, num_nodes, *edges, batch, place, sizes, layout)
        if batch is None or num_nodes == 0:
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
            max_size = int(sizes.max())
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

    def edge_places(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Returns where the edges lie in matrices :math:`(B, n, n)`: graph, target, source."""
        source, target = self.edge_index
        return self.graph[target], self.place[target], self.place[source]

    def sort_nodes(self, key: Tensor) -> Tensor:
        r"""Returns the nodes :math:`(N)` in ascending order of :obj:`key` within each graph."""
        order = torch.argsort(key, stable=True)
        return order[torch.argsort(self.graph[order], stable=True)]

    def degrees(self) -> Tensor:
        r"""Returns the number of edges that leave each node :math:`(N)`."""
        return degree(self.edge_index[0], self.num_nodes, torch.long)


def node_noise(place: Tensor, columns: int, training: bool, dtype: torch.dtype) -> Tensor:
    r"""Returns noise in :math:`[0, 1)` for each node :math:`(N, K)`: in training from PyTorch's
    global generator, at test time a hash of the number of the node within its graph, the same at
    every call, on every device, and for a graph alone as in a batch.
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
