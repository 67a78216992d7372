"""Models made for series on the nodes of a graph."""

from __future__ import annotations

from torch_grama.baselines.temporal_gcn import A3TGCN, TGCN
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "forecasting"

ENTRIES: dict[str, ModelEntry] = {
    "a3t-gcn": entry_of(A3TGCN, FAMILY),
    "t-gcn": entry_of(TGCN, FAMILY),
}
