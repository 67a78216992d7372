"""Words of the classic message-passing models."""

from __future__ import annotations

from dataclasses import replace

from torch_grama.baselines.co_gnn import CoGNN
from torch_grama.baselines.gcnii import GCNII
from torch_grama.baselines.message_passing import ARMA, GAT, GCN, GIN, GINE, GatedGCN, GraphSAGE
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "message passing"


ENTRIES: dict[str, ModelEntry] = {
    "gcn": entry_of(GCN, FAMILY),
    "sage": entry_of(GraphSAGE, FAMILY),
    "gat": entry_of(GAT, FAMILY),
    "gin": entry_of(GIN, FAMILY),
    "gine": entry_of(GINE, FAMILY),
    "gatedgcn": entry_of(GatedGCN, FAMILY),
    "gcnii": entry_of(GCNII, FAMILY),
    "arma": entry_of(ARMA, FAMILY),
    "co-gnn-mean": replace(entry_of(CoGNN, FAMILY), defaults={"aggregation": "mean"}),
    "co-gnn-sum": replace(
        entry_of(CoGNN, FAMILY),
        equation=CoGNN.card.equation.replace("mean_j", "sum_j"),
        defaults={"aggregation": "sum"},
    ),
}
