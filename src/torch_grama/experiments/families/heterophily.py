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
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "heterophily"
_entry = partial(ModelEntry, family=FAMILY)
PLATONOV = (
    "Platonov et al., A critical look at the evaluation of GNNs under heterophily, 2023 "
    "(arXiv:2302.11640)"
)
WU = "Wu et al., Simplifying Graph Convolutional Networks, 2019 (arXiv:1902.07153)"
FIXED_DEPTH = "Its depth is part of its name: num_layers is not read."
TRANSDUCTIVE = (
    "With num_nodes it learns a vector for each node: it then serves one graph and depends on the "
    "numbering of the nodes."
)

ENTRIES: dict[str, ModelEntry] = {
    "cpgnn": _entry(
        build=CPGNN,
        equation="B <- B0 + A B H,  B0 = softmax(MLP(X)) - 1/C,  H learned from the labels",
        reference="Zhu et al., Graph Neural Networks with Heterophily, 2021 (arXiv:2009.13566)",
        cost="N C^2 + E C",
        source="torch_grama",
        departures=(
            "A training loop has to call fit_labels and auxiliary_loss, as the one here does; "
            "without, H starts at random and the prior learns through the posterior alone.",
            "The MLP is trained alone for a fixed number of steps; the released code keeps its "
            "best validation epoch.",
        ),
    ),
    "fagcn": _entry(
        build=FAGCN,
        equation="h_i <- eps h_i^0 + sum_j tanh(g^T [h_i | h_j]) / sqrt(d_i d_j) h_j",
        reference=(
            "Bo et al., Beyond Low-Frequency Information in Graph Convolutional Networks, 2021 "
            "(arXiv:2101.00797)"
        ),
        cost="N F + E F",
        source="torch_geometric.nn.FAConv",
    ),
    "fsgnn": _entry(
        build=FSGNN,
        equation="Y = ReLU(|_m softmax(a)_m L2(M_m X W_m)) W,  M_m in {I, A, A+I, A^2, ...}",
        reference=(
            "Maurya et al., Improving Graph Neural Networks with Simple Architecture Design, 2021 "
            "(arXiv:2105.07634)"
        ),
        cost="N C F + E C",
        source="torch_grama",
        departures=(
            "Powers are normalised as in the paper; the evaluation of Platonov et al. used raw "
            "powers (normalize=false).",
        ),
    ),
    "gbk-gnn": _entry(
        build=GBKGNN,
        equation="h_i <- W_f h_i + mean_j (s_ij W_s h_j + (1 - s_ij) W_d h_j)",
        reference=(
            "Du et al., GBK-GNN: Gated Bi-Kernel Graph Neural Networks, 2022 (arXiv:2110.15777)"
        ),
        cost="N F^2 + E F",
        source="torch_grama",
        departures=(
            "A training loop has to add auxiliary_loss, which teaches the gates, as the one here "
            "does; without, they learn from the task alone.",
            "Follows the paper where the released code differs: neighbours in both sums, the sums "
            "added, plain cross-entropy of the gate.",
        ),
    ),
    "glognn": _entry(
        build=GloGNN,
        equation="H <- (1-g) Z* H + g H0,  Z* the ridge fit of H by all nodes, near powers of A",
        reference=(
            "Li et al., Finding Global Homophily in Graph Neural Networks When Meeting "
            "Heterophily, 2022 (arXiv:2205.07308)"
        ),
        cost="N C^2 + C^3 + E C",
        source="torch_grama",
        departures=(
            "Without num_nodes the branch that reads rows of the adjacency matrix is left out.",
            TRANSDUCTIVE,
            "GloGNN++, which weighs the outputs by a learned diagonal, is not included.",
        ),
    ),
    "gpr-gnn": _entry(
        build=GPRGNN,
        equation="Y = sum_k gamma_k A^k MLP(X),  gamma learned",
        reference=(
            "Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, 2021 "
            "(arXiv:2006.07988)"
        ),
        cost="E C",
        source="torch_grama",
    ),
    "h2gcn": _entry(
        build=H2GCN,
        equation="R^k = A_1 R^(k-1) | A_2 R^(k-1),  Y = W [R^0 | ... | R^K],  exact rings 1 and 2",
        reference=(
            "Zhu et al., Beyond Homophily in Graph Neural Networks, 2020 (arXiv:2006.11468)"
        ),
        cost="(E + E_2) F 2^k, with E_2 pairs at distance two",
        source="torch_grama",
        departures=("Edge weights are not used: the rings are sets.",),
    ),
    "jacobiconv": _entry(
        build=JacobiConv,
        equation="Y_c = sum_k beta_kc P_k(A) (X W)_c,  P_k Jacobi polynomials with learned factors",
        reference=(
            "Wang & Zhang, How Powerful are Spectral Graph Neural Networks, 2022 (arXiv:2205.11172)"
        ),
        cost="E C",
        source="torch_grama",
        departures=(
            "One learning rate and one dropout for all its parts; the released code has several.",
            "The sign of the constant term is that of Jacobi polynomials; the released code has "
            "the opposite one (no difference for a = b).",
        ),
    ),
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
