"""Words of the models that discretise a differential equation."""

from __future__ import annotations

from dataclasses import replace

from torch_grama.baselines.antisymmetric import ADGN, SWAN
from torch_grama.baselines.diffusion import DGC, GRAND
from torch_grama.baselines.graphcon import GraphCON
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "differential equation"


def _graphcon_gat() -> ModelEntry:
    gcn = entry_of(GraphCON, FAMILY)
    return replace(
        gcn,
        equation="Y += dt (act(GAT(X) + R X) - gamma X - alpha Y); X += dt Y",
        source="torch_geometric.nn.GATConv",
        departures=(
            *gcn.departures,
            "Heads are averaged; the released code averages neighbouring channels of each.",
        ),
        defaults={"coupling": "gat"},
    )


ENTRIES: dict[str, ModelEntry] = {
    "dgc": entry_of(DGC, FAMILY),
    "grand": replace(entry_of(GRAND, FAMILY), defaults={"linear": False}),
    "grand-linear": replace(
        entry_of(GRAND, FAMILY),
        equation="dX/dt = alpha (A(X(0)) - I) X, A row-stochastic attention on the edges",
        cost="4 E F",
        defaults={"linear": True},
    ),
    "graphcon": replace(entry_of(GraphCON, FAMILY), defaults={"coupling": "gcn"}),
    "graphcon-gat": _graphcon_gat(),
    "adgn": replace(entry_of(ADGN, FAMILY), defaults={"aggregation": "sum"}),
    "adgn-gcn": replace(
        entry_of(ADGN, FAMILY),
        equation="x_i += epsilon tanh((W - W^T - gamma I) x_i + sum_j a_ij V x_j + b)",
        defaults={"aggregation": "gcn"},
    ),
    "swan": entry_of(SWAN, FAMILY),
}
