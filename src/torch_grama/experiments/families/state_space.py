"""Words of the graph state-space models."""

from __future__ import annotations

from torch_grama.baselines.gmn import GMN
from torch_grama.baselines.graph_mamba import GPSMamba, GraphMamba
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "graph state-space model"

ENTRIES: dict[str, ModelEntry] = {
    "graph-mamba": entry_of(GraphMamba, FAMILY),
    "gps-mamba": entry_of(GPSMamba, FAMILY),
    "gmn": entry_of(GMN, FAMILY),
}
