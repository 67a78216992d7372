"""Words of the classic message-passing models."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.co_gnn import CoGNN
from torch_grama.baselines.gcnii import GCNII
from torch_grama.baselines.message_passing import ARMA, GAT, GCN, GIN, GINE, GatedGCN, GraphSAGE
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "message passing"
_entry = partial(ModelEntry, family=FAMILY)

_AROUND = "An encoder and a readout MLP lie around the layers, as in all models here."


def _cooperative(aggregation: str) -> ModelEntry:
    return _entry(
        build=CoGNN,
        equation=f"x_i' = h_i + act(W1 h_i + W2 {aggregation}_j listen_i broadcast_j h_j + b), "
        "h = LayerNorm(x)",
        reference="Finkelshtein et al., Cooperative Graph Neural Networks, 2024",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GraphConv and torch_grama",
        departures=(
            "In evaluation every node takes the likelier action; the released code draws samples.",
            "Edge attributes are left aside.",
        ),
        defaults={"aggregation": aggregation},
    )


ENTRIES: dict[str, ModelEntry] = {
    "gcn": _entry(
        build=GCN,
        equation="X' = act(A_hat X W + b)",
        reference="Kipf and Welling, Semi-Supervised Classification with Graph Convolutional "
        "Networks, 2017",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        departures=(_AROUND,),
    ),
    "sage": _entry(
        build=GraphSAGE,
        equation="x_i' = act(W1 x_i + W2 mean_j x_j + b)",
        reference="Hamilton et al., Inductive Representation Learning on Large Graphs, 2017",
        cost="N F^2 + E F",
        source="torch_geometric.nn.SAGEConv",
        departures=("The mean is over all neighbours.", "States are not divided by their norm."),
    ),
    "gat": _entry(
        build=GAT,
        equation="x_i' = act(sum_j softmax_j(LeakyReLU(a [W x_i, W x_j])) W x_j + b)",
        reference="Velickovic et al., Graph Attention Networks, 2018",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GATConv",
        takes_edge_attr=True,
        departures=(_AROUND, "Attention weights are not dropped out."),
    ),
    "gin": _entry(
        build=GIN,
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j x_j))",
        reference="Xu et al., How Powerful are Graph Neural Networks?, 2019",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINConv",
        departures=(
            "No batch norm inside the MLPs.",
            "The readout sees the last layer, not all of them.",
        ),
    ),
    "gine": _entry(
        build=GINE,
        equation="x_i' = act(MLP((1 + eps) x_i + sum_j ReLU(x_j + e_ij)))",
        reference="Hu et al., Strategies for Pre-training Graph Neural Networks, 2020",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GINEConv",
        takes_edge_attr=True,
        departures=(
            "One map encodes the edge attributes for all layers.",
            "Without edge attributes, every edge has one learned vector.",
        ),
    ),
    "gatedgcn": _entry(
        build=GatedGCN,
        equation="e' = C e + D x_i + E x_j; x_i' = x_i + act(BN(A x_i + sum_j s(e') B x_j / "
        "sum_j s(e')))",
        reference="Bresson and Laurent, Residual Gated Graph ConvNets, 2017, in the form of "
        "Dwivedi et al., Benchmarking Graph Neural Networks, 2023",
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        takes_edge_attr=True,
        departures=(
            "Dropout falls on the nodes alone.",
            "Without edge attributes, every edge starts from one learned vector.",
        ),
    ),
    "gcnii": _entry(
        build=GCNII,
        equation="X' = act(((1 - alpha) A_hat X + alpha X_0)((1 - beta_l) I + beta_l W)), "
        "beta_l = log(theta / l + 1)",
        reference="Chen et al., Simple and Deep Graph Convolutional Networks, 2020",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCN2Conv",
        departures=("Dropout follows each activation instead of preceding each layer.",),
    ),
    "arma": _entry(
        build=ARMA,
        equation="X_k <- act(D^-1/2 A D^-1/2 X_k W_k + X V_k + b_k), T times; X' = mean_k X_k",
        reference="Bianchi et al., Graph Neural Networks with Convolutional ARMA Filters, 2021",
        cost="K T (N F^2 + E F)",
        source="torch_geometric.nn.ARMAConv",
        departures=(_AROUND,),
    ),
    "co-gnn-mean": _cooperative("mean"),
    "co-gnn-sum": _cooperative("sum"),
}
