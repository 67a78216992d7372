"""The backbones that every property of the model is tested with."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import (
    ChebConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GPSConv,
    GraphConv,
    ResGatedGraphConv,
    SAGEConv,
    TransformerConv,
)

from torch_grama.nn import GRAMA

CHANNELS = 8
EDGE_DIM = 3


class SendTanh(Module):
    """A module as a user would write it, without anything from PyG."""

    def __init__(self, channels):
        super().__init__()
        self.sent = Linear(channels, channels)
        self.kept = Linear(channels, channels)

    def forward(self, x, edge_index):
        messages = self.sent(x)[edge_index[0]].tanh()
        return self.kept(x).index_add(0, edge_index[1], messages)


def _mlp():
    return Sequential(Linear(CHANNELS, CHANNELS), ReLU(), Linear(CHANNELS, CHANNELS))


@dataclass(frozen=True)
class BackboneCase:
    """A backbone by name, made anew for each test."""

    name: str
    build: Callable[[], str | Module]
    edge_dim: int | None = None
    has_batch_statistics: bool = False

    def model(self, in_channels=5, out_channels=2, **options) -> GRAMA:
        """A model of the case, in float64 and with every random number its own."""
        torch.manual_seed(12)
        options = {"seq_len": 3, "num_blocks": 2, "edge_dim": self.edge_dim, **options}
        return GRAMA(in_channels, CHANNELS, out_channels, backbone=self.build(), **options).double()

    def run(self, model, graph, **options):
        """Runs a model on a PyG graph with the edge attributes that the case needs."""
        if self.edge_dim is not None:
            options = {"edge_attr": graph.edge_attr, **options}
        return model(graph.x, graph.edge_index, batch=graph.batch, **options)


WORDS = [
    BackboneCase("gcn", lambda: "gcn"),
    BackboneCase("gcn-root", lambda: "gcn-root"),
    BackboneCase("gatedgcn", lambda: "gatedgcn", has_batch_statistics=True),
    BackboneCase("gatedgcn with edges", lambda: "gatedgcn", EDGE_DIM, True),
    BackboneCase("gps", lambda: "gps"),
    BackboneCase("gps with edges", lambda: "gps", EDGE_DIM),
    BackboneCase("gps-sum", lambda: "gps-sum"),
    BackboneCase("gin-multi", lambda: "gin-multi"),
    BackboneCase("gin-multi with edges", lambda: "gin-multi", EDGE_DIM),
    BackboneCase("gps-multi", lambda: "gps-multi"),
    BackboneCase("gps-performer", lambda: "gps-performer"),
    BackboneCase("gps-pre", lambda: "gps-pre"),
    BackboneCase("gps-multi-pre with edges", lambda: "gps-multi-pre", EDGE_DIM),
    BackboneCase("gatedgcn-sum", lambda: "gatedgcn-sum"),
    BackboneCase("gatedgcn-plain with edges", lambda: "gatedgcn-plain", EDGE_DIM),
]
MODULES = [
    BackboneCase("GCNConv", lambda: GCNConv(CHANNELS, CHANNELS)),
    BackboneCase("GATv2Conv", lambda: GATv2Conv(CHANNELS, CHANNELS // 2, heads=2)),
    BackboneCase("GATv2Conv with edges", lambda: GATv2Conv(CHANNELS, CHANNELS, edge_dim=3), 3),
    BackboneCase("SAGEConv", lambda: SAGEConv(CHANNELS, CHANNELS)),
    BackboneCase("GINConv", lambda: GINConv(_mlp())),
    BackboneCase("GINEConv", lambda: GINEConv(_mlp(), edge_dim=EDGE_DIM), EDGE_DIM),
    BackboneCase("ResGatedGraphConv", lambda: ResGatedGraphConv(CHANNELS, CHANNELS)),
    BackboneCase("GraphConv", lambda: GraphConv(CHANNELS, CHANNELS)),
    BackboneCase("TransformerConv", lambda: TransformerConv(CHANNELS, CHANNELS)),
    BackboneCase("ChebConv", lambda: ChebConv(CHANNELS, CHANNELS, K=3)),
    BackboneCase(
        "GPSConv",
        lambda: GPSConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), heads=2),
        has_batch_statistics=True,
    ),
    BackboneCase("user's module", lambda: SendTanh(CHANNELS)),
]
CASES = WORDS + MODULES
BY_NAME = {case.name: case for case in CASES}


def backbones(cases=CASES):
    """Runs a test with each of the cases, as argument ``case``."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
