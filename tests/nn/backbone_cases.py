"""The backbones that every property of the model is tested with."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.nn import Linear, Module, ReLU, Sequential
from torch_geometric.nn import (
    ChebConv,
    FAConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GPSConv,
    GraphConv,
    ResGatedGraphConv,
    SAGEConv,
    TransformerConv,
)

from torch_grama.nn import (
    GRAMA,
    GatedGCNConv,
    GPSLayer,
    RootedGCNConv,
    SelectiveCoefficients,
    build_gin_conv,
)

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


def draw_keys(model):
    """Draws the keys of selective coefficients, which start at zero."""
    for part in model.modules():
        if isinstance(part, SelectiveCoefficients):
            torch.nn.init.normal_(part.key_weight, std=0.1)


@dataclass(frozen=True)
class BackboneCase:
    """A backbone by name, made anew for each test; its edge attributes have any width."""

    name: str
    build: Callable[[], str | Module]
    edge_dim: int | None = None
    has_batch_statistics: bool = False

    def fresh(self, in_channels=5, out_channels=2, **options) -> GRAMA:
        """A model of the case as it starts, in float64 and with every random number its own."""
        torch.manual_seed(12)
        options = {"seq_len": 3, "num_blocks": 2, "edge_dim": self.edge_dim, **options}
        return GRAMA(in_channels, CHANNELS, out_channels, backbone=self.build(), **options).double()

    def model(self, **options) -> GRAMA:
        """The same with coefficients that differ from graph to graph, as after some training."""
        model = self.fresh(**options)
        draw_keys(model)
        return model

    def edge_attr(self, graph):
        """The edge attributes of a graph in the width of the case."""
        if self.edge_dim in (None, graph.edge_attr.size(1)):
            return graph.edge_attr
        return graph.edge_attr.repeat(1, 3)[:, : self.edge_dim].sin()

    def run(self, model, graph, **options):
        """Runs a model on a PyG graph with the edge attributes that the case needs."""
        if self.edge_dim is not None:
            options = {"edge_attr": self.edge_attr(graph), **options}
        return model(graph.x, graph.edge_index, batch=graph.batch, **options)


WORDS = [
    BackboneCase("gcn", lambda: "gcn"),
    BackboneCase("gatedgcn", lambda: "gatedgcn", None, True),
    BackboneCase("gatedgcn with edges", lambda: "gatedgcn", EDGE_DIM, True),
    BackboneCase("gin", lambda: "gin", None, True),
    BackboneCase("gin with edges", lambda: "gin", EDGE_DIM, True),
    BackboneCase("gps", lambda: "gps"),
    BackboneCase("gps with edges", lambda: "gps", EDGE_DIM),
    BackboneCase("neighbor-sum", lambda: "neighbor-sum", None, True),
    BackboneCase("neighbor-sum with edges", lambda: "neighbor-sum", EDGE_DIM, True),
]
# Modules that use edge attributes of their own width read them as they are.
MODULES = [
    BackboneCase("RootedGCNConv", lambda: RootedGCNConv(CHANNELS)),
    BackboneCase("GatedGCNConv without norm", lambda: GatedGCNConv(CHANNELS, norm=None)),
    BackboneCase(
        "GatedGCNConv of sums with edges",
        lambda: GatedGCNConv(CHANNELS, True, norm=None, normalize_gates=False),
        CHANNELS,
    ),
    BackboneCase(
        "GatedGCNConv through the model",
        lambda: GatedGCNConv(CHANNELS, num_recurrences=3, edge_state="model"),
        None,
        True,
    ),
    BackboneCase(
        "GatedGCNConv through the model with edges",
        lambda: GatedGCNConv(CHANNELS, True, 3, edge_state="model"),
        CHANNELS,
        True,
    ),
    BackboneCase("GIN of many aggregations", lambda: build_gin_conv(CHANNELS, aggregation="multi")),
    BackboneCase(
        "GPSLayer of many aggregations with edges",
        lambda: GPSLayer(CHANNELS, build_gin_conv(CHANNELS, True, "multi")),
        CHANNELS,
    ),
    BackboneCase(
        "GPSLayer with pre-norm",
        lambda: GPSLayer(CHANNELS, GCNConv(CHANNELS, CHANNELS), pre_norm=True),
    ),
    BackboneCase(
        "GPSLayer with batch norm",
        lambda: GPSLayer(
            CHANNELS, GCNConv(CHANNELS, CHANNELS), norm="batch_norm", num_recurrences=3
        ),
        None,
        True,
    ),
    BackboneCase(
        "GPSLayer with performer",
        lambda: GPSLayer(CHANNELS, GCNConv(CHANNELS, CHANNELS), attention="performer"),
    ),
    BackboneCase("GCNConv", lambda: GCNConv(CHANNELS, CHANNELS)),
    BackboneCase("GCN2Conv", lambda: GCN2Conv(CHANNELS, 0.2, 0.5, 1, shared_weights=False)),
    BackboneCase("FAConv", lambda: FAConv(CHANNELS)),
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
        "GPSConv", lambda: GPSConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), heads=2), None, True
    ),
    BackboneCase("user's module", lambda: SendTanh(CHANNELS)),
]
CASES = WORDS + MODULES
BY_NAME = {case.name: case for case in CASES}


def backbones(cases=CASES):
    """Runs a test with each of the cases, as argument ``case``."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
