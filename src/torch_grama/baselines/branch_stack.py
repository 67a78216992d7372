"""Layers of several branches: local message passing beside what sees a graph as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.baselines.products import apply_linear_map
from torch_grama.nn.arguments import choose
from torch_grama.nn.backbone import reset_backbone
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import find_linear_map
from torch_grama.nn.neighbor_convs import build_aggregation
from torch_grama.nn.norms import StepwiseBatchNorm


class EdgeOptions(HeadOptions, total=False):
    r"""Options of models that may read edge attributes."""

    edge_dim: int | None


class BranchStack(EncodedModel):
    r"""Layers of a local and a global branch, which a subclass chooses.

    Args:
        dropout (float, optional): Dropout inside the layers.
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"``, ``"gatedgcn"``,
            or :obj:`None` for no local branch.
        build_mixer (callable): Makes the global branch of a layer from the width of the states,
            called as ``mixer(x, view)``.
    """

    drops_ends = False

    def __init__(
        self,
        *sizes: int,
        local: str | None,
        build_mixer: Callable[[int], Module],
        **shared: Unpack[EdgeOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.ignores_edge_weight = local != "gcn"
        self.locals = ModuleList()
        if local is not None:
            self.locals = build_local_layers(self, local)
        self.mixers = self.per_layer(lambda: build_mixer(self.hidden_channels))
        self.frames = build_frames(self, 1 if local is None else 2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        for layer, (mixer, frame) in enumerate(zip(self.mixers, self.frames, strict=True)):
            branches = [mixer(x, view)]
            if len(self.locals) > 0:
                update, edge_state = self.locals[layer](x, edge_state, view)
                branches.append(update)
            x = frame(x, branches)
        return x


def build_frames(model: EncodedModel, num_branches: int) -> ModuleList:
    r"""Returns the :class:`BranchSum` of each layer of a model."""
    return model.per_layer(lambda: BranchSum(model.hidden_channels, num_branches, model.dropout))


class BranchSum(Module):
    r"""Residual branches side by side, summed, then a feed-forward part, as in `"Recipe for a
    General, Powerful, Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_:

    .. math::
        \mathbf{h} = \sum_k \mathrm{BN}_k \left( \mathbf{x} + \mathbf{u}_k \right), \qquad
        \mathbf{x}' = \mathrm{BN} \left( \mathbf{h} + \mathbf{W}_2 \,
        \mathrm{ReLU}(\mathbf{W}_1 \mathbf{h}) \right),

    where :math:`\mathbf{u}_k` is what branch :math:`k` made of :math:`\mathbf{x}` and the hidden
    width is twice that of the states. A batch of a single node has no variance and is normalised
    with the running statistics.
    """

    def __init__(self, channels: int, num_branches: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.channels = channels
        self.dropout = dropout
        self.branch_norms = ModuleList([StepwiseBatchNorm(channels) for _ in range(num_branches)])
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_branches={len(self.branch_norms)})"


class LocalBranch(Module):
    r"""A convolution of PyG as a branch; hands the edge state on as it came."""

    def __init__(self, conv: Module) -> None:
        super().__init__()
        self.conv = conv

    def reset_parameters(self) -> None:
        reset_backbone(self.conv)

    def forward(
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        linear = find_linear_map(self.conv, view.given)
        if linear is not None:
            return apply_linear_map(linear, x), edge_state
        if isinstance(self.conv, GCNConv):  # one that somebody watches
            return self.conv(x, view.edge_index, view.edge_weight), edge_state
        if edge_state is None:
            return self.conv(x, view.edge_index), None
        return self.conv(x, view.edge_index, edge_state), edge_state


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
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        out, new_state = self.conv(x, view.edge_index, edge_state)
        if edge_state is not None and self.dropout > 0:
            update = F.dropout(new_state - edge_state, self.dropout, self.training)
            new_state = edge_state + update
        return F.relu(out), new_state


def build_local_layers(model: EncodedModel, local: str) -> ModuleList:
    r"""Makes the local branches of all layers of a model."""
    build = choose("local", local, LOCAL_LAYERS)
    if local == "gcn" and model.edge_dim is not None:
        raise ValueError(
            "Expected a local branch that uses edge attributes (got local='gcn' with edge_dim "
            "set); use 'gatedgcn', 'gine' or 'gat'"
        )
    return ModuleList([build(model, layer) for layer in range(model.num_layers)])


def _gcn(model: EncodedModel, layer: int) -> Module:
    channels = model.hidden_channels
    return LocalBranch(GCNConv(channels, channels))  # type: ignore[abstract]


def _gat(model: EncodedModel, layer: int) -> Module:
    """Of up to four heads."""
    channels = model.hidden_channels
    heads = next(heads for heads in (4, 2, 1) if channels % heads == 0)
    edge_dim = None if model.edge_dim is None else channels
    conv = GATConv(channels, channels // heads, heads, edge_dim=edge_dim)  # type: ignore[abstract]
    return LocalBranch(conv)


def _gine(model: EncodedModel, layer: int, aggregation: str = "sum") -> Module:
    """With an MLP of two layers; without edge attributes GIN with the same MLP. The aggregation
    ``"multi"`` is a linear map of sum, mean, maximum and minimum."""
    channels = model.hidden_channels
    mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
    conv = GINConv if model.edge_dim is None else GINEConv
    return LocalBranch(conv(mlp, aggr=build_aggregation(aggregation, channels)))  # type: ignore[abstract]


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
