"""Every model that can be built by a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch.nn import Module

from torch_grama import baselines as models
from torch_grama.baselines.graph_model import Card, GraphModel
from torch_grama.experiments.grama import build_grama, explain_old
from torch_grama.runs.words import name_nearest

DEFAULT_MODEL = "grama"
"""The word of the model that is taken when none is named."""

# Words that an error names; all of them would fill the screen.
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Card):
    r"""One model that can be built by word: its card, and how it is built."""

    # the class, or a function, that makes it. Called as `build(in_channels, hidden_channels,
    # out_channels, num_layers, readout=..., **options)`; the module is called as `model(x,
    # edge_index, edge_weight, edge_attr, batch, batch_size)`
    build: Callable[..., Module]
    family: str = ""  # the heading under which it is listed
    # options that this word sets, such as the variant it stands for
    defaults: Mapping[str, object] = field(default_factory=dict)
    changed_in: str = ""  # the version in which its weights or settings changed last, if they did
    # says in a sentence what to write in place of an option, or of its value, that was valid in an
    # earlier version; None for any other
    explain_old: Callable[[str, object], str | None] = lambda option, value: None


def _word(
    build: type[GraphModel], changes: Mapping[str, Any] | None = None, **defaults: object
) -> ModelEntry:
    r"""A class with the options that the word stands for, and what they change of its card; of an
    equation, a pair names a part and what stands in its place.
    """
    changes = dict(changes or {})
    if isinstance(changes.get("equation"), tuple):
        changes["equation"] = build.card.equation.replace(*changes["equation"])
    return ModelEntry(**vars(replace(build.card, **changes)), build=build, defaults=defaults)


_GRAMA = Card(
    equation="f_t = a sum_i phi_i f_(t-i) + sum_j theta_j d_(t-j) + d_t,  d_t = g GNN(f_(t-1))",
    reference="Eliasof et al., Graph Adaptive Autoregressive Moving Average Models, ICML 2025",
    cost="that of the backbone + N F",
    source="torch_grama.nn.GRAMA",
    takes_edge_attr=True,
    takes_sequence=True,
    departures=(
        "A learned gain g on the backbone and a learned share a of the past, which start at 1 / R "
        "and 1 - g for R recurrences; gain=null is the paper's form.",
        "The division of the coefficients by their sum is guarded.",
        "Queries and keys of the coefficients are 16 wide and read states of unit scale.",
    ),
)


def _grama(
    backbone: str, update: str = "", cost: str = "", source: str = "", **options: object
) -> ModelEntry:
    changes: dict[str, Any] = {}
    if update:
        changes = {
            "equation": _GRAMA.equation.replace("GNN(f_(t-1))", update),
            "cost": cost,
            "source": f"{_GRAMA.source}, {source}",
            "takes_edge_attr": backbone != "gcn",
        }
    return ModelEntry(
        **vars(replace(_GRAMA, **changes)),
        build=build_grama,
        defaults={"backbone": backbone} | ({"backbone_options": options} if options else {}),
        changed_in="0.2.0",
        explain_old=explain_old,
    )


_DEPARTURES = {
    "performer": "The Performer has PyG's ReLU kernel; the paper's code has the softmax kernel.",
    "bigbird": "Nodes see a window of 3 to either side in the order of their numbers, the first 2 "
    "and 3 random ones, one by one and not in blocks.",
}


def _gps(local: str, attention: str = "multihead") -> ModelEntry:
    changes: dict[str, Any] = {
        "equation": f"h = BN(x + {local}(x)) + BN(x + {attention}(x)), x' = BN(h + MLP(h))",
        "takes_edge_attr": local != "gcn",
    }
    if attention in _DEPARTURES:
        departures = (*models.GPS.card.departures, _DEPARTURES[attention])
        changes |= {"cost": "N F^2 + E F", "departures": departures}
        changes["equivariant"] = attention != "bigbird"
    return _word(models.GPS, changes, local=local, attention=attention)


_FIXED_DEPTH = ("Its depth is part of its name: num_layers is not read.",)

FAMILIES: dict[str, dict[str, ModelEntry]] = {
    "GRAMA": {
        "grama": _grama("gatedgcn"),
        "grama-gcn": _grama("gcn", "D^-1/2 A D^-1/2 f_(t-1) W", "N F^2 + E F", "GCNConv"),
        "grama-gcnii": _grama(
            "gcn",
            "((1 - c) D^-1/2 A D^-1/2 f_(t-1) + c f_0)(b I + (1 - b) W)",
            "N F^2 + E F",
            "GCN2Conv",
            initial=0.2,
            identity=0.5,
        ),
        "grama-gatedgcn": _grama(
            "gatedgcn",
            "(A f_i + sum_j gate_ij B f_j / sum_j gate_ij)",
            "N F^2 + E F^2",
            "torch_grama.nn.GatedGCNConv",
        ),
        "grama-gin": _grama("gin", "BN(MLP(f_i + sum_j f_j))", "N F^2 + E F", "GINConv, GINEConv"),
        "grama-neighbor-sum": _grama(
            "neighbor-sum",
            "BN(sum_j ReLU(W f_j + b + e_ij))",
            "N F^2 + E F",
            "torch_grama.nn.NeighborSumConv",
        ),
        "grama-gps": _grama(
            "gps",
            "MLP(Conv(f_(t-1)) + Attention(f_(t-1)))",
            "N F^2 + E F + N^2 F",
            "torch_grama.nn.GPSLayer",
        ),
        "grama-gps-performer": _grama(
            "gps",
            "MLP(Conv(f_(t-1)) + Performer(f_(t-1)))",
            "N F^2 + E F",
            "torch_grama.nn.GPSLayer",
            attention="performer",
        ),
    },
    "message passing": {
        "gcn": _word(models.GCN),
        "sage": _word(models.GraphSAGE),
        "gat": _word(models.GAT),
        "gat-sep": _word(models.GATSep),
        "gin": _word(models.GIN),
        "gine": _word(models.GINE),
        "gatedgcn": _word(models.GatedGCN),
        "gcnii": _word(models.GCNII),
        "arma": _word(models.ARMA),
        "co-gnn-mean": _word(models.CoGNN, aggregation="mean"),
        "co-gnn-sum": _word(models.CoGNN, {"equation": ("mean_j", "sum_j")}, aggregation="sum"),
    },
    "tuned": {
        "tuned-gcn": _word(models.TunedGCN),
        "tuned-sage": _word(models.TunedSAGE),
        "tuned-gat": _word(models.TunedGAT),
        "tuned-gatedgcn": _word(models.TunedGatedGCN),
        "tuned-neighbor-sum": _word(models.TunedNeighborSum),
    },
    "differential equation": {
        "dgc": _word(models.DGC),
        "grand": _word(models.GRAND, linear=False),
        "grand-linear": _word(
            models.GRAND, {"equation": ("A(X)", "A(X(0))"), "cost": "4 E F"}, linear=True
        ),
        "graphcon": _word(models.GraphCON, coupling="gcn"),
        "graphcon-gat": _word(
            models.GraphCON,
            {
                "equation": ("GCN", "GAT"),
                "source": "torch_geometric.nn.GATConv",
                "departures": (
                    *models.GraphCON.card.departures,
                    "Heads are averaged; the released code averages neighbouring channels of each.",
                ),
            },
            coupling="gat",
        ),
        "adgn": _word(models.ADGN, aggregation="sum"),
        "adgn-gcn": _word(
            models.ADGN, {"equation": ("sum_j V x_j", "sum_j a_ij V x_j")}, aggregation="gcn"
        ),
        "swan": _word(models.SWAN),
        "sonar": _word(models.SONAR),
    },
    "heterophily": {
        "cpgnn": _word(models.CPGNN),
        "fagcn": _word(models.FAGCN),
        "fsgnn": _word(models.FSGNN),
        "gbk-gnn": _word(models.GBKGNN),
        "glognn": _word(models.GloGNN),
        "gpr-gnn": _word(models.GPRGNN),
        "h2gcn": _word(models.H2GCN),
        "jacobiconv": _word(models.JacobiConv),
        "mlp": _word(models.MLP),
        "mlp-1": _word(
            models.MLP,
            {"equation": "y_i = W x_i + b", "cost": "N C_in C_out", "departures": _FIXED_DEPTH},
            depth=1,
        ),
        "mlp-2": _word(
            models.MLP,
            {"equation": "y_i = W_2 relu(W_1 x_i + b_1) + b_2", "departures": _FIXED_DEPTH},
            depth=2,
        ),
        "resnet": _word(models.ResNet),
        "resnet-adj": _word(
            models.ResNet,
            {
                "equation": "ResNet on [x_i | row i of the adjacency matrix]",
                "cost": "N F^2, and E F once",
                "equivariant": False,
                "departures": (
                    "Needs num_nodes; it learns a vector for each node, serves one graph and "
                    "depends on the numbering of the nodes.",
                ),
            },
            graph_features="adjacency",
        ),
        "resnet-sgc": _word(
            models.ResNet,
            {"equation": "ResNet on [x_i | (A^5 X)_i]", "cost": "N F^2, and 5 E C once"},
            graph_features="sgc",
        ),
        "sgc": _word(models.SGC),
        "sgc-1": _word(
            models.SGC, {"equation": "Y = A X W + b", "departures": _FIXED_DEPTH}, depth=1
        ),
    },
    "graph transformer": {
        "transformer": _word(models.Transformer),
        "gt": _word(models.GT, separate=False),
        "gt-sep": _word(
            models.GT, {"equation": ("W sum_j a_ij v_j", "W [z_i, sum_j a_ij v_j]")}, separate=True
        ),
        "san": _word(models.SAN),
        "gps": _gps("gatedgcn"),
        "gps-performer": _gps("gatedgcn", "performer"),
        "gps-bigbird": _gps("gatedgcn", "bigbird"),
        "gps-gcn": _gps("gcn"),
        "gps-gcn-performer": _gps("gcn", "performer"),
        "gps-gat": _gps("gat"),
        "gps-gat-performer": _gps("gat", "performer"),
        "gps-gine": _gps("gine"),
        "exphormer": _word(models.Exphormer),
        "nagphormer": _word(models.NAGphormer),
        "goat": _word(models.GOAT),
        "grit": _word(models.GRIT),
    },
    "multi-hop": {
        "digl": _word(models.DIGL),
        "digl-heat": _word(
            models.DIGL,
            {"equation": "H <- H + relu(BN(S H W)),  S = exp(t (A - I)) sparsified"},
            diffusion="heat",
        ),
        "drew-gatedgcn": _word(models.DRewGatedGCN),
        "drew-gcn": _word(models.DRewGCN),
        "drew-gin": _word(models.DRewGIN),
        "mixhop": _word(models.MixHop),
    },
    "graph state-space model": {
        "graph-mamba": _word(models.GraphMamba),
        "gps-mamba": _word(models.GPSMamba),
        "gmn": _word(models.GMN),
        "mp-ssm": _word(models.MPSSM),
    },
    "forecasting": {"a3t-gcn": _word(models.A3TGCN), "t-gcn": _word(models.TGCN)},
}

MODELS: dict[str, ModelEntry] = {
    word: replace(entry, family=family)
    for family, entries in FAMILIES.items()
    for word, entry in entries.items()
}
"""Word to entry, in the order in which they are listed."""


def canonical_name(name: str) -> str:
    r"""Returns the form in which a word stands in the catalogue."""
    return name.strip().lower().replace("_", "-")


def find_model(name: str) -> ModelEntry:
    r"""Returns the entry of a word, whatever its case; raises with the nearest if there is none."""
    word = canonical_name(name)
    if word in MODELS:
        return MODELS[word]
    raise ValueError(
        f"Expected 'model' to be one of the {len(MODELS)} names that `grama models` prints, such "
        f"as {name_nearest(word, MODELS, _SHOWN)} (got {name!r})"
    )
