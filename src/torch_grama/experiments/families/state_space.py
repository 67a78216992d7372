"""Words of the graph state-space models."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.gmn import GMN
from torch_grama.baselines.graph_mamba import GPSMamba, GraphMamba
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "graph state-space model"
_entry = partial(ModelEntry, family=FAMILY)

ENTRIES: dict[str, ModelEntry] = {
    "graph-mamba": _entry(
        build=GraphMamba,
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x sorted by degree + noise)), x' = BN(h "
        "+ MLP(h))",
        reference="Wang et al., Graph-Mamba: Towards Long-Range Graph Sequence Modeling with "
        "Selective State Spaces, 2024",
        cost="N F^2 + S N F + E F, S states a channel; five times the scan at test time",
        source="torch_grama",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "The five orders of the test are fixed by the number of a node within its graph; the "
            "paper's code draws them anew.",
            "No random buckets for large graphs: one graph is one sequence.",
            "The scan is plain PyTorch, parallel within chunks; no compiled kernel.",
        ),
    ),
    "gps-mamba": _entry(
        build=GPSMamba,
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024 (baseline of that paper)",
        cost="N F^2 + S N F + E F, S states a channel",
        source="torch_grama",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "The paper says neither order, direction nor local branch: taken are the stored "
            "order, one direction and GatedGCN.",
        ),
    ),
    "gmn": _entry(
        build=GMN,
        equation="y_i = last(BiMamba(subgraphs of random walks from i, widest first)), u = "
        "BiMamba(y sorted by degree), h = BN(x + u) + BN(x + gatedgcn(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024",
        cost="T N F^2 + T S N F + E F, T tokens a node, S states a channel",
        source="torch_grama",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "No code of the authors is public; this is a reading of the paper.",
            "Subgraphs are encoded by one round of message passing and a mean; each direction of "
            "the scan over them is read at its end.",
            "Walks are drawn once a forward pass for all layers; at test time they are fixed by "
            "the number of a node within its graph.",
            "The frame around the scans, with its feed-forward part, is that of GPS.",
        ),
    ),
}
