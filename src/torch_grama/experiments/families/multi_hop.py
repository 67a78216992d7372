"""Models that look further than one edge in a layer, or rewire the graph."""

from __future__ import annotations

from dataclasses import replace

from torch.nn import Module

from torch_grama.baselines.digl import DIGL, GraphDiffusion
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.multi_hop import MixHop
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "multi-hop"


def build_digl(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    num_layers: int,
    *,
    readout: str = "node",
    dropout: float = 0.0,
    diffusion: str = "ppr",
    alpha: float = 0.15,
    t: float = 5.0,
    avg_degree: int = 16,
    top_k: int | None = None,
    residual: bool = True,
    batch_norm: bool = True,
    cached: bool = True,
) -> Module:
    r"""Builds :class:`~torch_grama.baselines.DIGL` from plain options.

    The settings of the diffusion are those of
    :class:`~torch_grama.baselines.digl.GraphDiffusion`.
    """
    return DIGL(
        in_channels,
        hidden_channels,
        out_channels,
        num_layers,
        readout=readout,
        dropout=dropout,
        diffusion=GraphDiffusion(diffusion, alpha, t, avg_degree, top_k),
        residual=residual,
        batch_norm=batch_norm,
        cached=cached,
    )


ENTRIES: dict[str, ModelEntry] = {
    "digl": replace(entry_of(DIGL, FAMILY), build=build_digl),
    "digl-heat": replace(
        entry_of(DIGL, FAMILY),
        build=build_digl,
        equation="H <- H + relu(BN(S H W)),  S = exp(t (A - I)) sparsified",
        defaults={"diffusion": "heat"},
    ),
    "drew-gatedgcn": entry_of(DRewGatedGCN, FAMILY),
    "drew-gcn": entry_of(DRewGCN, FAMILY),
    "drew-gin": entry_of(DRewGIN, FAMILY),
    "mixhop": entry_of(MixHop, FAMILY),
}
