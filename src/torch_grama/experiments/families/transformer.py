"""Words of the graph transformers."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gps import GPS, Transformer
from torch_grama.baselines.gt import GT
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.san import SAN
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
    "transformer": _entry(
        build=Transformer,
        equation="h = BN(x + attention(x)), x' = BN(h + MLP(h)), over all nodes of a graph",
        reference="Dwivedi et al., Long Range Graph Benchmark, 2022",
        cost="N F^2 + n N F, n nodes a graph",
        source="torch.nn.MultiheadAttention",
        departures=(_ENCODINGS,),
    ),
    "gt": _gt(separate=False),
    "gt-sep": _gt(separate=True),
    "san": _entry(
        build=SAN,
        equation="a_i = sum_j w_ij v_j / sum_j w_ij, w = exp(q k e) on edges and gamma exp(q' k' "
        "e') elsewhere, h = BN(x + W a), x' = BN(h + MLP(h))",
        reference="Kreuzer et al., Rethinking Graph Transformers with Spectral Attention, 2021",
        cost="N F^2 + n N F + E F, n nodes a graph",
        source="torch_grama",
        takes_edge_attr=True,
        departures=(
            "The learned Laplacian encoding is a module of its own (LaplaceEncoder); without it "
            "the encodings are those of all models here.",
            "Dropout follows the output map of the attention instead of preceding it.",
        ),
    ),
    "gps": _gps("gatedgcn"),
    "gps-performer": _gps("gatedgcn", "performer"),
    "gps-gcn": _gps("gcn"),
    "gps-gcn-performer": _gps("gcn", "performer"),
    "gps-gat": _gps("gat"),
    "gps-gat-performer": _gps("gat", "performer"),
    "gps-gine": _gps("gine"),
    "exphormer": _entry(
        build=Exphormer,
        equation="h = BN(x + gatedgcn(x)) + BN(x + a), a_i = sum_j w_ij v_j / sum_j w_ij, w = "
        "exp(q k e) on edges, expander edges and virtual nodes, x' = BN(h + MLP(h))",
        reference="Shirzad et al., Exphormer: Sparse Transformers for Graphs, 2023",
        cost="N F^2 + (E + 2 d N) F, d the expander's degree",
        source="torch_grama",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "One expander a seed and graph size; the paper's code draws one for each graph.",
            "Equivariant with expander_degree=0 alone.",
            _ENCODINGS,
        ),
    ),
    "nagphormer": _entry(
        build=NAGphormer,
        equation="z_i = transformer([x_i, (A_hat x)_i, ..., (A_hat^K x)_i]), x_i' = z_i0 + sum_k "
        "softmax_k(a [z_i0, z_ik]) z_ik",
        reference="Chen et al., NAGphormer: A Tokenized Graph Transformer for Node "
        "Classification in Large Graphs, 2023",
        cost="K N F^2 + K^2 N F, and once K E C, K hops, C input channels",
        source="torch_grama, with torch.nn.MultiheadAttention",
        departures=(
            "Whole graphs at a time; the paper trains on batches of nodes with stored hops.",
            "The head is a readout MLP of the hidden width; the paper's narrows to half of it.",
            _ENCODINGS,
        ),
    ),
    "goat": _entry(
        build=GOAT,
        equation="x_i' = FFN([sum_j softmax_j(q_i k_j + b_d(ij)) v_j, sum_k softmax_k(q_i' W mu_k "
        "+ log n_k) V mu_k]), j nearby, mu_k the centres of k-means",
        reference="Kong et al., GOAT: A Global Transformer on Large-scale Graphs, 2023",
        cost="N F^2 + E F + K N F, K centres",
        source="torch_grama",
        departures=(
            "All nodes within local_hops (1 by default); the paper samples from three hops.",
            "Positional codes are part of the node features, not beside them.",
            "Counts of the centres are those of the node's own graph at this step; the paper's "
            "are of one graph and of earlier steps.",
            "Centres start with a count of one, so that unused ones stay in place.",
        ),
    ),
}
