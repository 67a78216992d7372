"""Local message passing beside a global branch, by word."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv

from torch_grama.baselines.batch_view import BatchView
from torch_grama.nn.arguments import choose
from torch_grama.nn.backbone import reset_backbone
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.neighbor_convs import build_aggregation


class LocalBranch(Module):
    r"""A convolution of PyG as a branch; hands the edge state on as it came.

    Args:
        conv (Module): Called with the edge state, if there is one.
        takes_edge_weight (bool, optional): Whether it reads edge weights instead.
            (default: :obj:`False`)
    """

    def __init__(self, conv: Module, takes_edge_weight: bool = False) -> None:
        super().__init__()
        self.conv = conv
        self.takes_edge_weight = takes_edge_weight

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset_backbone(self.conv)

    def forward(
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        r"""Returns the branch and the edge state."""
        if self.takes_edge_weight:
            return self.conv(x, view.edge_index, view.edge_weight), edge_state
        if edge_state is None:
            return self.conv(x, view.edge_index), None
        return self.conv(x, view.edge_index, edge_state), edge_state


class GatedGCNBranch(Module):
    r"""A :class:`~torch_grama.nn.GatedGCNConv` with ReLU, which also updates the edge state.

    Args:
        channels (int): Width of the states.
        has_edge_state (bool): Whether an edge state is given; if not, the layer starts one.
        dropout (float): Dropout of the update of the edges.
        is_last (bool, optional): Whether nobody will read the edge state, which then is not
            updated. (default: :obj:`False`)
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
        r"""Returns the branch and the new edge state."""
        out, new_state = self.conv(x, view.edge_index, edge_state)
        if edge_state is not None and self.dropout > 0:
            update = F.dropout(new_state - edge_state, self.dropout, self.training)
            new_state = edge_state + update
        return F.relu(out), new_state


def build_local_layers(
    local: str, num_layers: int, channels: int, has_edge_attr: bool, dropout: float
) -> ModuleList:
    r"""Makes the local branches of all layers of a model.

    Args:
        local (str): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
        num_layers (int): Number of layers.
        channels (int): Width of the states.
        has_edge_attr (bool): Whether there are edge attributes.
        dropout (float): Dropout of the update of the edges.

    Raises:
        ValueError: If there is no such word.
    """
    build = choose("local", local, LOCAL_LAYERS)
    return ModuleList(
        [
            build(channels, has_edge_attr, layer == 0, layer == num_layers - 1, dropout)
            for layer in range(num_layers)
        ]
    )


def _gat(channels: int, has_edge_attr: bool) -> Module:
    """Of up to four heads."""
    heads = next(heads for heads in (4, 2, 1) if channels % heads == 0)
    edge_dim = channels if has_edge_attr else None
    conv = GATConv(channels, channels // heads, heads, edge_dim=edge_dim)  # type: ignore[abstract]
    return LocalBranch(conv)


def _gine(channels: int, has_edge_attr: bool, aggregation: str = "sum") -> Module:
    """With an MLP of two layers; without edge attributes GIN with the same MLP. The aggregation
    ``"multi"`` is a linear map of sum, mean, maximum and minimum."""
    mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
    conv = GINEConv if has_edge_attr else GINConv
    return LocalBranch(conv(mlp, aggr=build_aggregation(aggregation, channels)))  # type: ignore[abstract]


LOCAL_LAYERS: dict[str, Callable[[int, bool, bool, bool, float], Module]] = {
    "gcn": lambda channels, *_: LocalBranch(GCNConv(channels, channels), True),  # type: ignore[abstract]
    "gat": lambda channels, has_edge_attr, *_: _gat(channels, has_edge_attr),
    "gine": lambda channels, has_edge_attr, *_: _gine(channels, has_edge_attr),
    "gine-multi": lambda channels, has_edge_attr, *_: _gine(channels, has_edge_attr, "multi"),
    "gatedgcn": lambda channels, has_edge_attr, is_first, is_last, dropout: GatedGCNBranch(
        channels, has_edge_attr or not is_first, dropout, is_last
    ),
}
"""Word to what makes a branch of: channels, has_edge_attr, is_first, is_last, dropout."""
