"""Words of the graph transformers."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gps import GPS, Transformer
from torch_grama.baselines.gt import GT
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.san import SAN
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "graph transformer"
_entry = partial(ModelEntry, family=FAMILY)

_ENCODINGS = (
    "Positional encodings are part of the node features, encoded once for all models alike."
)
_PERFORMER = "The Performer has PyG's ReLU kernel; the paper's code has the softmax kernel."
_COSTS = {"multihead": "N F^2 + n N F + E F, n nodes a graph", "performer": "N F^2 + E F"}


def _gps(local: str, attention: str = "multihead") -> ModelEntry:
    return _entry(
        build=GPS,
        equation=f"h = BN(x + {local}(x)) + BN(x + {attention}(x)), x' = BN(h + MLP(h))",
        reference="Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, "
        "2022",
        cost=_COSTS[attention],
        source="torch_grama, with torch.nn.MultiheadAttention and the PyG operators",
        takes_edge_attr=local != "gcn",
        departures=(_ENCODINGS, _PERFORMER) if attention == "performer" else (_ENCODINGS,),
        defaults={"local": local, "attention": attention},
    )


def _gt(separate: bool) -> ModelEntry:
    message = "W [z_i, sum_j a_ij v_j]" if separate else "W sum_j a_ij v_j"
    return _entry(
        build=GT,
        equation=f"h_i = x_i + {message}, a_ij = softmax_j(q_i k_j / sqrt(d)) over the edges, "
        "z = LN(x), x' = h + FFN(LN(h))",
        reference="Platonov et al., A critical look at the evaluation of GNNs under heterophily, "
        "2023",
        cost="N F^2 + E F",
        source="torch_geometric.nn.TransformerConv",
        takes_edge_attr=True,
        departures=(
            "Edge attributes, which the paper does not have, are added to keys and values.",
            "The head is a readout MLP; the paper's is one linear map.",
        ),
        defaults={"separate": separate},
    )


ENTRIES: dict[str, ModelEntry] = {
    "transformer": entry_of(Transformer, FAMILY),
    "gt": _gt(separate=False),
    "gt-sep": _gt(separate=True),
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
