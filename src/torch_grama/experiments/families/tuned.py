"""Words of the classic models with the recipes that make them strong."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.tuned import TunedGAT, TunedGatedGCN, TunedGCN, TunedSAGE
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "tuned"
_entry = partial(ModelEntry, family=FAMILY)

_REFERENCE = (
    "Luo et al., Classic GNNs are Strong Baselines, 2024, and Can Classic GNNs Be Strong "
    "Baselines for Graph-level Tasks?, 2025"
)
_POOLING = (
    "Graphs are read out by their mean unless pooling says otherwise; the recipe takes sum or "
    "maximum for some data sets."
)

ENTRIES: dict[str, ModelEntry] = {
    "tuned-gcn": _entry(
        build=TunedGCN,
        equation="x_i' = Dropout(act(BN(sum_j a_ij W x_j + sum_j e_ij + b + R x_i)))",
        reference=_REFERENCE,
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        takes_edge_attr=True,
        departures=(
            "Edge attributes are added to each message; the second paper's released layer applies "
            "ReLU to it and drops the factor a_ij.",
            _POOLING,
        ),
    ),
    "tuned-sage": _entry(
        build=TunedSAGE,
        equation="x_i' = Dropout(act(BN(W1 x_i + mean_j (W2 x_j + e_ij) + b + R x_i)))",
        reference=_REFERENCE,
        cost="N F^2 + E F",
        source="torch_geometric.nn.SAGEConv",
        takes_edge_attr=True,
        departures=(
            "The mean is over the neighbours; the released code adds self-loops to the graph.",
            "The second paper has no GraphSAGE; edge attributes are added as for GCN.",
            _POOLING,
        ),
    ),
    "tuned-gat": _entry(
        build=TunedGAT,
        equation="x_i' = Dropout(act(BN(sum_j alpha_ij W x_j + b + R x_i)))",
        reference=_REFERENCE,
        cost="N F^2 + E F",
        source="torch_geometric.nn.GATConv",
        takes_edge_attr=True,
        departures=(
            "The second paper has no GAT; edge attributes take part in the attention.",
            _POOLING,
        ),
    ),
    "tuned-gatedgcn": _entry(
        build=TunedGatedGCN,
        equation="x_i' = x_i + Dropout(act(BN(GatedGCN(x, e)_i)))",
        reference=_REFERENCE,
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        takes_edge_attr=True,
        departures=("Dropout falls on the nodes alone.", _POOLING),
    ),
}
