"""Models made for graphs whose neighbours differ, and the graph-agnostic rows beside them."""

from __future__ import annotations

from dataclasses import replace

from torch_grama.baselines.cpgnn import CPGNN
from torch_grama.baselines.fagcn import FAGCN
from torch_grama.baselines.gbk_gnn import GBKGNN
from torch_grama.baselines.glognn import GloGNN
from torch_grama.baselines.mlp import MLP, ResNet
from torch_grama.baselines.multi_hop import FSGNN, H2GCN
from torch_grama.baselines.polynomial import GPRGNN, SGC, JacobiConv
from torch_grama.experiments.families import entry_of
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "heterophily"
FIXED_DEPTH = "Its depth is part of its name: num_layers is not read."

ENTRIES: dict[str, ModelEntry] = {
    "cpgnn": entry_of(CPGNN, FAMILY),
    "fagcn": entry_of(FAGCN, FAMILY),
    "fsgnn": entry_of(FSGNN, FAMILY),
    "gbk-gnn": entry_of(GBKGNN, FAMILY),
    "glognn": entry_of(GloGNN, FAMILY),
    "gpr-gnn": entry_of(GPRGNN, FAMILY),
    "h2gcn": entry_of(H2GCN, FAMILY),
    "jacobiconv": entry_of(JacobiConv, FAMILY),
    "mlp": entry_of(MLP, FAMILY),
    "mlp-1": replace(
        entry_of(MLP, FAMILY),
        equation="y_i = W x_i + b",
        cost="N C_in C_out",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 1},
    ),
    "mlp-2": replace(
        entry_of(MLP, FAMILY),
        equation="y_i = W_2 relu(W_1 x_i + b_1) + b_2",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 2},
    ),
    "resnet": entry_of(ResNet, FAMILY),
    "resnet-adj": replace(
        entry_of(ResNet, FAMILY),
        equation="ResNet on [x_i | row i of the adjacency matrix]",
        cost="N F^2, and E F once",
        equivariant=False,
        departures=(
            "Needs num_nodes; it learns a vector for each node, serves one graph and depends on "
            "the numbering of the nodes.",
        ),
        defaults={"graph_features": "adjacency"},
    ),
    "resnet-sgc": replace(
        entry_of(ResNet, FAMILY),
        equation="ResNet on [x_i | (A^5 X)_i]",
        cost="N F^2, and 5 E C once",
        defaults={"graph_features": "sgc"},
    ),
    "sgc": entry_of(SGC, FAMILY),
    "sgc-1": replace(
        entry_of(SGC, FAMILY),
        equation="Y = A X W + b",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 1},
    ),
}
