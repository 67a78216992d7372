"""Words of the classic message-passing models."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.co_gnn import CoGNN
from torch_grama.baselines.gcnii import GCNII
from torch_grama.baselines.message_passing import ARMA, GAT, GCN, GIN, GINE, GatedGCN, GraphSAGE
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "message passing"
_entry = partial(ModelEntry, family=FAMILY)


def _cooperative(aggregation: str) -> ModelEntry:
    return _entry(
        build=CoGNN,
        equation=f"x_i' = h_i + act(W1 h_i + W2 {aggregation}_j listen_i broadcast_j h_j + b), "
        "h = LayerNorm(x)",
        reference="Finkelshtein et al., Cooperative Graph Neural Networks, 2024",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GraphConv and torch_grama",
        departures=(
            "In evaluation every node takes the likelier action; the released code draws samples.",
            "Edge attributes are left aside.",
        ),
        defaults={"aggregation": aggregation},
    )


ENTRIES: dict[str, ModelEntry] = {
    "gcn": entry_of(GCN, FAMILY),
    "sage": entry_of(GraphSAGE, FAMILY),
    "gat": entry_of(GAT, FAMILY),
    "gin": entry_of(GIN, FAMILY),
    "gine": entry_of(GINE, FAMILY),
    "gatedgcn": entry_of(GatedGCN, FAMILY),
    "gcnii": entry_of(GCNII, FAMILY),
    "arma": entry_of(ARMA, FAMILY),
    "co-gnn-mean": _cooperative("mean"),
    "co-gnn-sum": _cooperative("sum"),
}
