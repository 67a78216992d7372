"""Words of the graph transformers."""

from __future__ import annotations

from dataclasses import replace

from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gps import GPS, Transformer
from torch_grama.baselines.gt import GT
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.san import SAN
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "graph transformer"

_PERFORMER = "The Performer has PyG's ReLU kernel; the paper's code has the softmax kernel."


def _gps(local: str, attention: str = "multihead") -> ModelEntry:
    entry = replace(
        entry_of(GPS, FAMILY),
        equation=f"h = BN(x + {local}(x)) + BN(x + {attention}(x)), x' = BN(h + MLP(h))",
        takes_edge_attr=local != "gcn",
        defaults={"local": local, "attention": attention},
    )
    if attention == "multihead":
        return entry
    return replace(entry, cost="N F^2 + E F", departures=(*entry.departures, _PERFORMER))


ENTRIES: dict[str, ModelEntry] = {
    "transformer": entry_of(Transformer, FAMILY),
    "gt": replace(entry_of(GT, FAMILY), defaults={"separate": False}),
    "gt-sep": replace(
        entry_of(GT, FAMILY),
        equation=GT.card.equation.replace("W sum_j a_ij v_j", "W [z_i, sum_j a_ij v_j]"),
        defaults={"separate": True},
    ),
    "san": entry_of(SAN, FAMILY),
    "gps": _gps("gatedgcn"),
    "gps-performer": _gps("gatedgcn", "performer"),
    "gps-gcn": _gps("gcn"),
    "gps-gcn-performer": _gps("gcn", "performer"),
    "gps-gat": _gps("gat"),
    "gps-gat-performer": _gps("gat", "performer"),
    "gps-gine": _gps("gine"),
    "exphormer": entry_of(Exphormer, FAMILY),
    "nagphormer": entry_of(NAGphormer, FAMILY),
    "goat": entry_of(GOAT, FAMILY),
}
