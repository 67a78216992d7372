"""Models that look further than one edge in a layer, or rewire the graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from torch.nn import Module

from torch_grama.baselines.digl import DIGL, GraphDiffusion
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.multi_hop import MixHop
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "multi-hop"
_entry = partial(ModelEntry, family=FAMILY)
DIGL_REFERENCE = "Gasteiger et al., Diffusion Improves Graph Learning, 2019 (arXiv:1911.05485)"
DREW_REFERENCE = (
    "Gutteridge et al., DRew: Dynamically Rewired Message Passing with Delay, 2023 "
    "(arXiv:2305.08018)"
)
NO_EDGE_FEATURES = "Edge weights and attributes are not used, as in the long-range experiments."


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
    "drew-gatedgcn": _entry(
        build=DRewGatedGCN,
        equation=(
            "h_i <- h_i + relu(BN(A h_i + sum_(k<=l+1) gated mean over distance k of "
            "B_k h_j^(l - delay(k))))"
        ),
        reference=DREW_REFERENCE,
        cost="l (N F^2 + E_k F), with E_k pairs at distance k",
        source="torch_grama",
        departures=(NO_EDGE_FEATURES,),
    ),
    "drew-gcn": _entry(
        build=DRewGCN,
        equation=(
            "h_i <- h_i + relu(BN(sum_(k<=l+1) sum_(d(j,i)=k) W_k h_j^(l - delay(k)) / "
            "sqrt(d_i^k d_j^k)))"
        ),
        reference=DREW_REFERENCE,
        cost="l (N F^2 + E_k F), with E_k pairs at distance k",
        source="torch_grama",
        departures=(
            "Follows the equation of the paper; the released code also adds self-loops at every "
            "distance, applies batch norm and ReLU to each term, and scales each state to length "
            "one.",
            NO_EDGE_FEATURES,
        ),
    ),
    "drew-gin": _entry(
        build=DRewGIN,
        equation=(
            "h_i <- (1+e) MLP_s(h_i) + sum_(k<=l+1) MLP_k(sum_(d(j,i)=k) h_j^(l - delay(k)))"
        ),
        reference=DREW_REFERENCE,
        cost="l (N F^2 + E_k F), with E_k pairs at distance k",
        source="torch_grama",
        departures=(
            "MLP_k follows the sum and there are no weights between the distances, as in the "
            "released code; unlike there, MLP_k acts also where a batch has no pair at distance k.",
            "The paper's epsilon is learned; the released code keeps it at zero.",
            NO_EDGE_FEATURES,
        ),
    ),
    "mixhop": _entry(
        build=MixHop,
        equation="H <- relu(BN(|_p A^p H W_p)),  p in {0, 1, 2}",
        reference=(
            "Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures, 2019 "
            "(arXiv:1905.00067)"
        ),
        cost="|P|^2 N F^2 + max(P) |P| E F",
        source="torch_geometric.nn.MixHopConv",
        departures=(
            "hidden_channels is the width for each power.",
            "The paper learns the share of each power by lasso; here all have the same width.",
        ),
    ),
}
