"""Models that look further than one edge in a layer, or rewire the graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from torch.nn import Module

from torch_grama.baselines.digl import DIGL, GraphDiffusion
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.multi_hop import MixHop
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "multi-hop"
_entry = partial(ModelEntry, family=FAMILY)
DIGL_REFERENCE = "Gasteiger et al., Diffusion Improves Graph Learning, 2019 (arXiv:1911.05485)"


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


def _digl(diffusion: str, defaults: Mapping[str, object] = MappingProxyType({})) -> ModelEntry:
    return _entry(
        build=build_digl,
        equation=f"H <- H + relu(BN(S H W)),  S = {diffusion} sparsified",
        reference=DIGL_REFERENCE,
        cost="N F^2 + E_S F, and N^3 once a graph",
        source="torch_geometric.transforms.GDC, torch_geometric.nn.GCNConv",
        departures=(
            "The convolutions have batch norm and a skip connection, which the paper leaves to the "
            "model that is combined with it.",
        ),
        defaults=defaults,
    )


ENTRIES: dict[str, ModelEntry] = {
    "digl": _digl("a (I - (1-a) A)^-1"),
    "digl-heat": _digl("exp(t (A - I))", {"diffusion": "heat"}),
    "drew-gatedgcn": entry_of(DRewGatedGCN, FAMILY),
    "drew-gcn": entry_of(DRewGCN, FAMILY),
    "drew-gin": entry_of(DRewGIN, FAMILY),
    "mixhop": entry_of(MixHop, FAMILY),
}
