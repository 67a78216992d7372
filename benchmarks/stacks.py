"""The layers that GRAMA is compared with, stacked to the same depth and width."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ModuleList
from torch_geometric.nn import GCNConv, GPSConv, global_mean_pool
from torch_geometric.nn.models import GCN

from torch_grama.nn import GatedGCNConv


class GCNStack(Module):
    """PyG's GCN model, as shipped or with cached normalisation; mean pooling for graph tasks."""

    def __init__(
        self, in_channels: int, channels: int, depth: int, out_channels: int, cached: bool
    ) -> None:
        super().__init__()
        self.model = GCN(in_channels, channels, depth, out_channels, cached=cached)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        out: Tensor = self.model(x, edge_index)
        return out if batch is None else global_mean_pool(out, batch, batch_size)


class GPSStack(Module):
    """PyG's GPSConv layers around a GCNConv, between two linear layers."""

    def __init__(self, in_channels: int, channels: int, depth: int, out_channels: int) -> None:
        super().__init__()
        self.first = Linear(in_channels, channels)
        self.layers = ModuleList(
            [GPSConv(channels, GCNConv(channels, channels), heads=4) for _ in range(depth)]
        )
        self.last = Linear(channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, edge_index)
        out: Tensor = self.last(x)
        return out


class GatedGCNStack(Module):
    """GatedGCN layers with skip connections and edge states, between two linear layers."""

    def __init__(self, in_channels: int, channels: int, depth: int, out_channels: int) -> None:
        super().__init__()
        self.first = Linear(in_channels, channels)
        layers = [GatedGCNConv(channels)]
        layers += [GatedGCNConv(channels, has_edge_attr=True) for _ in range(depth - 1)]
        self.layers = ModuleList(layers)
        self.last = Linear(channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x)
        edge_state: Tensor | None = None
        for layer in self.layers:
            update, edge_state = layer(x, edge_index, edge_state)
            x = x + F.relu(update)
        out: Tensor = self.last(x)
        return out
