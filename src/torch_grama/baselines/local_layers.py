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


class GCNBranch(Module):
    r"""A :class:`~torch_geometric.nn.GCNConv`; reads edge weights, hands the edge state on.

    Args:
        channels (int): Width of the states.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(channels, channels)  # type: ignore[abstract]

    def forward(
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        r"""Returns the branch and the edge state."""
        return self.conv(x, view.edge_index, view.edge_weight), edge_state


class GATBranch(Module):
    r"""A :class:`~torch_geometric.nn.GATConv` of up to four heads; reads edge attributes.

    Args:
        channels (int): Width of the states.
        has_edge_attr (bool): Whether there are edge attributes.
    """

    def __init__(self, channels: int, has_edge_attr: bool) -> None:
        super().__init__()
        heads = next(heads for heads in (4, 2, 1) if channels % heads == 0)
        edge_dim = channels if has_edge_attr else None
        self.conv = GATConv(  # type: ignore[abstract]
            channels, channels // heads, heads, edge_dim=edge_dim
        )

    def forward(
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        r"""Returns the branch and the edge state."""
        return self.conv(x, view.edge_index, edge_state), edge_state


class GINEBranch(Module):
    r"""A :class:`~torch_geometric.nn.GINEConv` with an MLP of two layers; without edge attributes a
    :class:`~torch_geometric.nn.GINConv` with the same MLP.

    Args:
        channels (int): Width of the states.
        has_edge_attr (bool): Whether there are edge attributes.
        aggregation (str, optional): ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
            maximum and minimum in its place. (default: :obj:`"sum"`)
    """

    def __init__(self, channels: int, has_edge_attr: bool, aggregation: str = "sum") -> None:
        super().__init__()
        mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
        conv = GINEConv if has_edge_attr else GINConv
        self.conv = conv(mlp, aggr=build_aggregation(aggregation, channels))  # type: ignore[abstract]

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset_backbone(self.conv)

    def forward(
        self, x: Tensor, edge_state: Tensor | None, view: BatchView
    ) -> tuple[Tensor, Tensor | None]:
        r"""Returns the branch and the edge state."""
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


LOCAL_LAYERS: dict[str, Callable[[int, bool, bool, bool, float], Module]] = {
    "gcn": lambda channels, *_: GCNBranch(channels),
    "gat": lambda channels, has_edge_attr, *_: GATBranch(channels, has_edge_attr),
    "gine": lambda channels, has_edge_attr, *_: GINEBranch(channels, has_edge_attr),
    "gine-multi": lambda channels, has_edge_attr, *_: GINEBranch(channels, has_edge_attr, "multi"),
    "gatedgcn": lambda channels, has_edge_attr, is_first, is_last, dropout: GatedGCNBranch(
        channels, has_edge_attr or not is_first, dropout, is_last
    ),
}
"""Word to what makes a branch of: channels, has_edge_attr, is_first, is_last, dropout."""
