"""Models of the nodes alone, with or without features of the graph beside theirs."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import GELU, Dropout, LayerNorm, Linear, Module, Parameter, Sequential
from torch_geometric.nn.models import MLP as PyGMLP

from torch_grama.baselines.graph_head import NodeOutput
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions, check_num_nodes
from torch_grama.baselines.products import propagate, weigh_without_loops
from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency, sum_adjacency

PLATONOV = "Platonov et al., A critical look at the evaluation of GNNs under heterophily, 2023"


class MLP(GraphModel):
    r"""A multi-layer perceptron on each node, by PyG's :class:`~torch_geometric.nn.MLP`.

    .. math::
        \mathbf{y}_i = \mathbf{W}_L \, \sigma( \cdots \sigma(\mathbf{W}_1 \mathbf{x}_i +
        \mathbf{b}_1) \cdots ) + \mathbf{b}_L,

    where :math:`\sigma` is ReLU with dropout. One layer (MLP-1) is a linear classifier.

    Args:
        num_layers (int): Number of linear layers :math:`L`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)` *(not used)*
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    card = Card(
        equation="y_i = W_L relu(... relu(W_1 x_i))",
        reference=f"{PLATONOV} (arXiv:2302.11640)",
        cost="N F^2",
        source="torch_geometric.nn.MLP",
    )

    ignores_edge_weight: bool = True

    def __init__(
        self, *sizes: int, depth: int | None = None, **shared: Unpack[ModelOptions]
    ) -> None:
        check_positive(depth=depth)
        super().__init__(*sizes, **shared)
        self.num_layers = depth or self.num_layers
        self.head = NodeOutput(self.readout)
        self.mlp = PyGMLP(self.widths, dropout=self.dropout, norm=None)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        out: Tensor = self.mlp(x)
        return out


def feed_forward(in_channels: int, channels: int, dropout: float) -> tuple[Module, ...]:
    r"""Returns the parts of the FFN that all models of Platonov et al. have."""
    lins = Linear(in_channels, channels), Linear(channels, channels)
    return lins[0], Dropout(dropout), GELU(), lins[1], Dropout(dropout)


GRAPH_FEATURES = {
    "none": "the node's own features",
    "sgc": "and the features averaged over its surroundings",
    "adjacency": "and its row of the adjacency matrix",
}


class ResNet(GraphModel):
    r"""The graph-agnostic model of `"A critical look at the evaluation of GNNs under heterophily:
    Are we really making progress?" <https://arxiv.org/abs/2302.11640>`_ and its two extensions.

    .. math::
        \mathbf{h}_i^{(0)} = \mathrm{GELU}(\mathbf{W} \mathbf{z}_i + \mathbf{b}), \qquad
        \mathbf{h}_i^{(l+1)} = \mathbf{h}_i^{(l)} +
        \mathrm{FFN}(\mathrm{LN}(\mathbf{h}_i^{(l)})), \qquad
        \mathbf{y}_i = \mathbf{W}' \, \mathrm{LN}(\mathbf{h}_i^{(L)}) + \mathbf{b}',

    where :math:`\mathbf{z}_i` is :math:`\mathbf{x}_i` (ResNet), :math:`\mathbf{x}_i \,\Vert\,
    (\hat{\mathbf{A}}^K \mathbf{X})_i` (ResNet+SGC) or :math:`\mathbf{x}_i \,\Vert\,
    \mathbf{A}_i` (ResNet+adj), and the FFN is two linear layers with dropout, GELU, dropout.

    .. note::
        ResNet+adj learns a vector for each node: it is transductive, needs :obj:`num_nodes`, and
        depends on the numbering of the nodes. The rows of :math:`\mathbf{A}` are never formed; the
        first layer sums the vectors of the neighbours, which is the same.

    Args:
        num_layers (int): Number of residual modules.
        graph_features (str, optional): ``"none"``, ``"sgc"`` or ``"adjacency"``.
        num_hops (int, optional): The power :math:`K`.
        num_nodes (int, optional): Number of nodes of the one graph, for ``"adjacency"`` alone.
    """

    card = Card(
        equation="h_i <- h_i + FFN(LN(h_i))",
        reference=f"{PLATONOV} (arXiv:2302.11640)",
        cost="N F^2",
    )

    def __init__(
        self,
        *sizes: int,
        graph_features: str = "none",
        num_hops: int = 5,
        num_nodes: int | None = None,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(num_hops=num_hops, num_nodes=num_nodes)
        choose("graph_features", graph_features, GRAPH_FEATURES)
        if graph_features == "adjacency" and num_nodes is None:
            raise ValueError(
                "Expected 'num_nodes', the number of nodes of the one graph, for "
                "graph_features='adjacency' (got None)"
            )
        self.graph_features = graph_features
        self.ignores_edge_weight = graph_features == "none"
        self.num_hops = num_hops
        self.num_nodes = num_nodes if graph_features == "adjacency" else None
        width = self.in_channels * (2 if graph_features == "sgc" else 1)
        self.lin = Linear(width, self.hidden_channels)
        # column j of the part of the first layer that reads rows of the adjacency matrix
        self.node_weight = (
            None
            if self.num_nodes is None
            else Parameter(torch.empty(self.num_nodes, self.hidden_channels))
        )
        channels = self.hidden_channels
        self.layers = self.per_layer(
            lambda: Sequential(LayerNorm(channels), *feed_forward(channels, channels, self.dropout))
        )
        self.norm = LayerNorm(channels)
        self.head = self.build_head()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.node_weight is not None and self.num_nodes is not None:
            # as one linear layer over features and adjacency row would be
            bound = (self.in_channels + self.num_nodes) ** -0.5
            torch.nn.init.uniform_(self.node_weight, -bound, bound)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        if self.graph_features == "sgc":
            adjacency = shared_gcn_adjacency(graph, x.dtype)
            smooth = x
            for _ in range(self.num_hops):
                smooth = propagate(adjacency, smooth)
            # [N, C] -> [N, 2 C]
            x = torch.cat([x, smooth], dim=-1)
        # [N, C] -> [N, F]
        h = self.lin(x)
        if self.node_weight is not None and self.num_nodes is not None:
            check_num_nodes(self.num_nodes, x)
            weight = weigh_without_loops(graph.edge_index, graph.edge_weight, x.dtype)
            rows = sum_adjacency(graph.edge_index, weight, graph.num_nodes, x.dtype)
            h = h + propagate(rows, self.node_weight)
        h = F.gelu(F.dropout(h, self.dropout, self.training))
        for layer in self.layers:
            h = h + layer(h)
        out: Tensor = self.norm(h)
        return out
