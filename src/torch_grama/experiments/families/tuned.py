"""Words of the classic models with the recipes that make them strong."""

from __future__ import annotations

from torch_grama.baselines.tuned import TunedGAT, TunedGatedGCN, TunedGCN, TunedSAGE
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "tuned"


ENTRIES: dict[str, ModelEntry] = {
    "tuned-gcn": entry_of(TunedGCN, FAMILY),
    "tuned-sage": entry_of(TunedSAGE, FAMILY),
    "tuned-gat": entry_of(TunedGAT, FAMILY),
    "tuned-gatedgcn": entry_of(TunedGatedGCN, FAMILY),
}
