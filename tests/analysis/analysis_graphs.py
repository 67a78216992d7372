"""Small graphs and models that the tests of this folder share."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv

from torch_grama.analysis.inputs import ModelInput
from torch_grama.nn import GRAMA, Coefficients, GatedGCNConv, GPSLayer, Readout

KINDS = {
    "gcn": {},
    "deep": {"seq_len": 8},
    "gatedgcn": {"backbone": "gatedgcn"},
    "edges of the model": {"backbone": GatedGCNConv(4, edge_state="model")},
    "own weights": {"backbone": "gin", "share_weights": False},
    "gps": {"backbone": "gps"},
    "performer": {"backbone": GPSLayer(4, GATv2Conv(4, 4), attention="performer")},
    "module": {"backbone": GATv2Conv(4, 4)},
    "step": {"coefficients": Coefficients(update="step"), "norm": "layer_norm"},
    "naive": {"coefficients": "naive", "act": "tanh"},
}
"""Options of :func:`grama`: one model of every kind that is followed in another way."""


def path_edges(num_nodes: int) -> Tensor:
    """Both directions of a path."""
    first = torch.arange(num_nodes - 1)
    forward = torch.stack([first, first + 1])
    return torch.cat([forward, forward.flip(0)], dim=1)


def grid_edges(side: int) -> Tensor:
    """Every cell of a square board with its up to eight neighbours, as in Minesweeper."""
    cell = torch.arange(side * side).view(side, side)
    pairs = [
        (cell[:, :-1], cell[:, 1:]),
        (cell[:-1], cell[1:]),
        (cell[:-1, :-1], cell[1:, 1:]),
        (cell[:-1, 1:], cell[1:, :-1]),
    ]
    one_way = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], dim=1)
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def graph(num_nodes: int, channels: int = 3, seed: int = 0) -> ModelInput:
    """A path with random features in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, channels, generator=generator, dtype=torch.float64)
    return ModelInput(x, path_edges(num_nodes))


def grama(**options: object) -> GRAMA:
    """A small model in float64 whose coefficients and gains are far from their start."""
    torch.manual_seed(0)
    settings = {"seq_len": 3, "num_blocks": 2, "gain": 0.7, "act": "elu", **options}
    model = GRAMA(3, 4, 2, **settings).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".coefficients." in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def grama_for_graphs(pooling: str = "mean", **options: object) -> GRAMA:
    """The same with one output per graph."""
    return grama(readout=Readout("graph", pooling), **options)


class Stage(nn.Module):
    """A wrapper that changes what it passes on, as an input stage does."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        keywords = {"batch": batch, "batch_size": batch_size}
        return self.model(2 * x, edge_index, edge_weight, edge_attr, **keywords)


class Encoded(nn.Module):
    """A wrapper that encodes categories of nodes and edges, and appends positions."""

    def __init__(self, model: nn.Module, node_encoder: nn.Module, edge_encoder=None) -> None:
        super().__init__()
        self.model = model
        self.node_encoder = node_encoder
        self.edge_encoder = edge_encoder

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, *rest, pe=None):
        x = self.node_encoder(x)
        x = x if pe is None else torch.cat([x, pe], dim=-1)
        edge_attr = None if edge_attr is None else self.edge_encoder(edge_attr)
        return self.model(x, edge_index, edge_weight, edge_attr, *rest)


class MessagePassingStack(nn.Module):
    """Sums over neighbours and self, without weights: every derivative is a number of walks."""

    def __init__(self, depth: int, readout: str = "node") -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Identity() for _ in range(depth)])
        self.head = nn.Identity()
        self.readout = readout

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):
        for layer in self.layers:
            x = layer(x + torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]]))
        if self.readout == "node":
            return self.head(x)
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        pooled = x.new_zeros(batch_size or int(batch.max()) + 1, x.size(1)).index_add(0, batch, x)
        return self.head(pooled)
