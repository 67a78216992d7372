"""Models made for graphs whose neighbours differ, and the graph-agnostic rows beside them."""

from __future__ import annotations

from functools import partial

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
_entry = partial(ModelEntry, family=FAMILY)
PLATONOV = (
    "Platonov et al., A critical look at the evaluation of GNNs under heterophily, 2023 "
    "(arXiv:2302.11640)"
)
WU = "Wu et al., Simplifying Graph Convolutional Networks, 2019 (arXiv:1902.07153)"
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
    "mlp": _entry(
        build=MLP,
        equation="y_i = W_L relu(... relu(W_1 x_i))",
        reference=PLATONOV,
        cost="N F^2",
        source="torch_geometric.nn.MLP",
    ),
    "mlp-1": _entry(
        build=MLP,
        equation="y_i = W x_i + b",
        reference=PLATONOV,
        cost="N C_in C_out",
        source="torch_geometric.nn.MLP",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 1},
    ),
    "mlp-2": _entry(
        build=MLP,
        equation="y_i = W_2 relu(W_1 x_i + b_1) + b_2",
        reference=PLATONOV,
        cost="N F^2",
        source="torch_geometric.nn.MLP",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 2},
    ),
    "resnet": _entry(
        build=ResNet,
        equation="h_i <- h_i + FFN(LN(h_i))",
        reference=PLATONOV,
        cost="N F^2",
        source="torch_grama",
    ),
    "resnet-adj": _entry(
        build=ResNet,
        equation="ResNet on [x_i | row i of the adjacency matrix]",
        reference=PLATONOV,
        cost="N F^2, and E F once",
        source="torch_grama",
        equivariant=False,
        departures=(
            "Needs num_nodes; it learns a vector for each node, serves one graph and depends on "
            "the numbering of the nodes.",
        ),
        defaults={"graph_features": "adjacency"},
    ),
    "resnet-sgc": _entry(
        build=ResNet,
        equation="ResNet on [x_i | (A^5 X)_i]",
        reference=PLATONOV,
        cost="N F^2, and 5 E C once",
        source="torch_grama",
        defaults={"graph_features": "sgc"},
    ),
    "sgc": _entry(
        build=SGC,
        equation="Y = A^K X W + b",
        reference=WU,
        cost="E C",
        source="torch_geometric.nn.SGConv",
    ),
    "sgc-1": _entry(
        build=SGC,
        equation="Y = A X W + b",
        reference=WU,
        cost="E C",
        source="torch_geometric.nn.SGConv",
        departures=(FIXED_DEPTH,),
        defaults={"depth": 1},
    ),
}
