"""Words of the models that discretise a differential equation."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.antisymmetric import ADGN, SWAN
from torch_grama.baselines.diffusion import DGC, GRAND
from torch_grama.baselines.graphcon import GraphCON
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "differential equation"
_entry = partial(ModelEntry, family=FAMILY)


def _grand(linear: bool) -> ModelEntry:
    state = "X(0)" if linear else "X"
    return _entry(
        build=GRAND,
        equation=f"dX/dt = alpha (A({state}) - I) X, A row-stochastic attention on the edges",
        reference="Chamberlain et al., GRAND: Graph Neural Diffusion, 2021",
        cost="4 E F" if linear else "4 (N F^2 + E F)",
        source="torch_grama",
        departures=(
            "Fixed Runge-Kutta steps instead of an adaptive solver; a layer is a step.",
            "Keys and queries start at random instead of at a small constant.",
        ),
        defaults={"linear": linear},
    )


def _graphcon(coupling: str) -> ModelEntry:
    departures = ["The linear term R X of the released code, which the paper's equation lacks."]
    if coupling == "gat":
        departures.append(
            "Heads are averaged; the released code averages neighbouring channels of each."
        )
    return _entry(
        build=GraphCON,
        equation=f"Y += dt (act({coupling.upper()}(X) + R X) - gamma X - alpha Y); X += dt Y",
        reference="Rusch et al., Graph-Coupled Oscillator Networks, 2022",
        cost="N F^2 + E F",
        source=f"torch_geometric.nn.{coupling.upper()}Conv",
        departures=tuple(departures),
        defaults={"coupling": coupling},
    )


def _adgn(aggregation: str, term: str) -> ModelEntry:
    return _entry(
        build=ADGN,
        equation=f"x_i += epsilon tanh((W - W^T - gamma I) x_i + {term} + b)",
        reference="Gravina et al., Anti-Symmetric DGN: a stable architecture for Deep Graph "
        "Networks, 2023",
        cost="N F^2 + E F",
        source="torch_geometric.nn.AntiSymmetricConv",
        departures=("The readout is that of all models here.",),
        defaults={"aggregation": aggregation},
    )


ENTRIES: dict[str, ModelEntry] = {
    "dgc": entry_of(DGC, FAMILY),
    "grand": _grand(linear=False),
    "grand-linear": _grand(linear=True),
    "graphcon": _graphcon("gcn"),
    "graphcon-gat": _graphcon("gat"),
    "adgn": _adgn("sum", "sum_j V x_j"),
    "adgn-gcn": _adgn("gcn", "sum_j a_ij V x_j"),
    "swan": entry_of(SWAN, FAMILY),
}
