"""The layers that GRAMA is compared with, stacked to the same depth and width."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ModuleList
from torch_geometric.nn import GCNConv, GPSConv, global_mean_pool
from torch_geometric.nn.models import GCN
from torch_geometric.utils import scatter

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

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            # GPSConv has no place for the number of graphs and reads it off the batch vector
            x = layer(x, edge_index, batch)
        out: Tensor = self.last(x)
        return out if batch is None else global_mean_pool(out, batch, batch_size)


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


class PlainGatedGCN(Module):
    """GatedGCN with edge states on PyG's scatter and torch's batch norm, as it is usually written,
    with mean pooling.
    """

    def __init__(
        self, in_channels: int, channels: int, depth: int, out_channels: int, edge_dim: int
    ) -> None:
        super().__init__()
        self.first = Linear(in_channels, channels)
        self.edges = Linear(edge_dim, channels)
        self.layers = ModuleList([_PlainGatedLayer(channels) for _ in range(depth)])
        self.last = Linear(channels, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_attr: Tensor,
        batch: Tensor,
        batch_size: int,
    ) -> Tensor:
        x, edge_state = self.first(x), self.edges(edge_attr)
        for layer in self.layers:
            x, edge_state = layer(x, edge_index, edge_state)
        out: Tensor = self.last(global_mean_pool(x, batch, batch_size))
        return out


class _PlainGatedLayer(Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lins = ModuleList([Linear(channels, channels) for _ in range(5)])
        self.node_norm = BatchNorm1d(channels)
        self.edge_norm = BatchNorm1d(channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_state: Tensor) -> tuple[Tensor, Tensor]:
        own, message, to_target, from_source, edge = self.lins
        source, target = edge_index[0], edge_index[1]
        logit = (
            edge(edge_state)
            + to_target(x).index_select(0, target)
            + from_source(x).index_select(0, source)
        )
        gate = logit.sigmoid()
        sent = gate * message(x).index_select(0, source)
        total = scatter(sent, target, dim_size=x.size(0), reduce="sum")
        weight = scatter(gate, target, dim_size=x.size(0), reduce="sum")
        update = self.node_norm(own(x) + total / (weight + 1e-6))
        return x + F.relu(update), edge_state + F.relu(self.edge_norm(logit))
