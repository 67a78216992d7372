"""The models of Platonov et al.: of the nodes alone, and with attention along the edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import GELU, Dropout, LayerNorm, Linear, Module, ModuleList, Parameter, Sequential
from torch_geometric.nn import TransformerConv
from torch_geometric.nn.models import MLP as PyGMLP
from torch_geometric.utils import add_self_loops, scatter, softmax

from torch_grama.baselines.graph_model import (
    Card,
    GraphModel,
    ModelOptions,
    ScoreModel,
    check_heads,
)
from torch_grama.baselines.layer_stack import EdgeOptions, EncodedModel, HeadOptions
from torch_grama.baselines.products import gather_rows, propagate, weigh_without_loops
from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine.adjacency import gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency
from torch_grama.nn.neighbor_convs import convolve

PLATONOV = (
    "Platonov et al., A critical look at the evaluation of GNNs under heterophily, 2023 "
    "(arXiv:2302.11640)"
)


class MLP(ScoreModel):
    r"""A multi-layer perceptron on each node:

    .. math::
        \mathbf{y}_i = \mathbf{W}_L \, \sigma( \cdots \sigma(\mathbf{W}_1 \mathbf{x}_i +
        \mathbf{b}_1) \cdots ) + \mathbf{b}_L,

    where :math:`\sigma` is ReLU with dropout. One layer (MLP-1) is a linear classifier.

    Args:
        num_layers (int): Number of linear layers :math:`L`.
    """

    card = Card(
        equation="y_i = W_L relu(... relu(W_1 x_i))",
        reference=PLATONOV,
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
    r"""The model of the nodes alone, and its two extensions by features of the graph:

    .. math::
        \mathbf{h}_i^{(0)} = \mathrm{GELU}(\mathbf{W} \mathbf{z}_i + \mathbf{b}), \qquad
        \mathbf{h}_i^{(l+1)} = \mathbf{h}_i^{(l)} +
        \mathrm{FFN}(\mathrm{LN}(\mathbf{h}_i^{(l)})), \qquad
        \mathbf{y}_i = \mathbf{W}' \, \mathrm{LN}(\mathbf{h}_i^{(L)}) + \mathbf{b}',

    where :math:`\mathbf{z}_i` is :math:`\mathbf{x}_i` (ResNet), :math:`\mathbf{x}_i \,\Vert\,
    (\hat{\mathbf{A}}^K \mathbf{X})_i` (ResNet+SGC) or :math:`\mathbf{x}_i \,\Vert\, \mathbf{A}_i`
    (ResNet+adj), and the FFN is two linear layers with dropout, GELU, dropout. ResNet+adj learns a
    vector for each node: it is transductive, needs :obj:`num_nodes`, and depends on the numbering
    of the nodes. The rows of :math:`\mathbf{A}` are never formed; the first layer sums the vectors
    of the neighbours, which is the same.

    Args:
        num_layers (int): Number of residual modules.
        graph_features (str, optional): ``"none"``, ``"sgc"`` or ``"adjacency"``.
        num_hops (int, optional): The power :math:`K`.
        num_nodes (int, optional): Number of nodes of the one graph, for ``"adjacency"`` alone.
    """

    card = Card(
        equation="h_i <- h_i + FFN(LN(h_i))",
        reference=PLATONOV,
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
        self.graph_features, self.num_hops = graph_features, num_hops
        self.ignores_edge_weight = graph_features == "none"
        channels = self.hidden_channels
        self.lin = Linear(self.in_channels * (2 if graph_features == "sgc" else 1), channels)
        # column j of the part of the first layer that reads rows of the adjacency matrix
        self.node_weight: Parameter | None = None
        if graph_features == "adjacency" and num_nodes is not None:
            self.node_weight = Parameter(torch.empty(num_nodes, channels))
        self.layers = self.per_layer(
            lambda: Sequential(LayerNorm(channels), *feed_forward(channels, channels, self.dropout))
        )
        self.norm = LayerNorm(channels)
        self.head = self.build_head()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.node_weight is not None:
            # as one linear layer over features and adjacency row would be
            bound = (self.in_channels + len(self.node_weight)) ** -0.5
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
        if self.node_weight is not None:
            weight = weigh_without_loops(graph.edge_index, graph.edge_weight, x.dtype)
            h = h + gather_rows(self.node_weight, graph, weight)
        h = F.gelu(F.dropout(h, self.dropout, self.training))
        for layer in self.layers:
            h = h + layer(h)
        out: Tensor = self.norm(h)
        return out


class EdgeAttention(EncodedModel):
    r"""An activation before the layers and a norm after.

    Args:
        dropout (float, optional): Dropout inside the layers.
    """

    ignores_edge_weight: bool = True
    drops_ends = False
    layers: ModuleList

    def set_layers(self, heads: int, build: Callable[[], Module]) -> None:
        r"""Makes the layers, each of which is called with nodes, edges and edge states."""
        check_heads(self.hidden_channels, heads)
        self.layers = self.per_layer(build)
        self.norm = LayerNorm(self.hidden_channels)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        x = F.gelu(F.dropout(x, self.dropout, self.training))
        for layer in self.layers:
            x = layer(x, graph.edge_index, graph.edge_attr)
        out: Tensor = self.norm(x)
        return out


class GT(EdgeAttention):
    r"""A graph transformer whose attention is restricted to the edges:

    .. math::
        \mathbf{a}_i &= \Big\Vert_h \sum_{j \in \mathcal{N}(i) \cup \{i\}} \mathrm{softmax}_j
        \left( \frac{\mathbf{q}_{h,i}^\top \mathbf{k}_{h,j}}{\sqrt{d}} \right) \mathbf{v}_{h,j}, \\
        \mathbf{h}_i &= \mathbf{x}_i + \mathbf{W} \mathbf{a}_i, \qquad
        \mathbf{x}'_i = \mathbf{h}_i + \mathrm{FFN}(\mathrm{LN}(\mathbf{h}_i)),

    where queries, keys and values are maps of :math:`\mathrm{LN}(\mathbf{x})`. The variant with
    separation (GT-sep) leaves node :math:`i` out of the sum and has
    :math:`\mathbf{W} [\mathrm{LN}(\mathbf{x}_i) \Vert \mathbf{a}_i]` instead.

    Args:
        separate (bool, optional): Whether a node is kept apart from its neighbours.
    """

    card = Card(
        equation="h_i = x_i + W sum_j a_ij v_j, a_ij = softmax_j(q_i k_j / sqrt(d)) over the "
        "edges, z = LN(x), x' = h + FFN(LN(h))",
        reference=PLATONOV,
        cost="N F^2 + E F",
        source="torch_geometric.nn.TransformerConv",
        departures=(
            "Edge attributes, which the paper does not have, are added to keys and values; the "
            "loop at a node has zeros.",
            "The head is a readout MLP; the paper's is one linear map.",
        ),
    )

    def __init__(
        self, *sizes: int, heads: int = 8, separate: bool = False, **shared: Unpack[EdgeOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
        self.separate = separate
        channels = self.hidden_channels
        state_dim = None if self.edge_dim is None else channels
        self.set_layers(heads, lambda: _GTLayer(channels, heads, self.dropout, separate, state_dim))

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        if not self.separate:
            edge_index, edge_state = add_self_loops(
                graph.edge_index, graph.edge_attr, fill_value=0.0, num_nodes=graph.num_nodes
            )
            graph = replace(graph, edge_index=edge_index, edge_attr=edge_state)
        return super().propagate(x, graph)


class _GTLayer(Module):
    def __init__(
        self, channels: int, heads: int, dropout: float, separate: bool, edge_dim: int | None
    ) -> None:
        super().__init__()
        self.separate = separate
        self.dropout = dropout
        self.attention_norm = LayerNorm(channels)
        self.attention = TransformerConv(  # type: ignore[abstract]
            channels, channels // heads, heads, edge_dim=edge_dim, root_weight=False
        )
        # it makes the map of the skip connection also where it does not use it
        self.attention.register_module("lin_skip", _NoMap())
        self.out_lin = Linear(2 * channels if separate else channels, channels)
        self.mlp = Sequential(LayerNorm(channels), *feed_forward(channels, channels, dropout))

    def forward(self, x: Tensor, edge_index: Tensor, edge_state: Tensor | None) -> Tensor:
        normed = self.attention_norm(x)
        message = convolve(self.attention, normed, edge_index, edge_state)
        if self.separate:
            # [N, F] -> [N, 2 F]
            message = torch.cat([normed, message], dim=-1)
        x = x + F.dropout(self.out_lin(message), self.dropout, self.training)
        out: Tensor = x + self.mlp(x)
        return out


class _NoMap(Module):
    def reset_parameters(self) -> None:
        """Has none."""


class GATSep(EdgeAttention):
    r"""Graph attention that keeps a node apart from its neighbours:

    .. math::
        \mathbf{z}_i &= \mathbf{W} \, \mathrm{LN}(\mathbf{x}_i), \qquad
        \mathbf{m}_i = \Big\Vert_h \sum_{j \in \mathcal{N}(i)} \mathrm{softmax}_j \big(
        \mathrm{LeakyReLU}(\mathbf{a}_h^\top \mathbf{z}_i + \mathbf{b}_h^\top \mathbf{z}_j) \big)
        \, \mathbf{z}_{h,j}, \\
        \mathbf{x}'_i &= \mathbf{x}_i + \mathrm{FFN}([\mathbf{z}_i \Vert \mathbf{m}_i]).
    """

    card = Card(
        equation="x_i' = x_i + FFN([z_i | sum_j a_ij z_j]), z = W LN(x), a_ij = "
        "softmax_j(LeakyReLU(a z_i + b z_j))",
        reference=PLATONOV,
        cost="N F^2 + E F",
        departures=("The head is a readout MLP; the paper's is one linear map.",),
    )

    def __init__(self, *sizes: int, heads: int = 8, **shared: Unpack[HeadOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.set_layers(heads, lambda: _SeparateLayer(self.hidden_channels, heads, self.dropout))


class _SeparateLayer(Module):
    def __init__(self, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = LayerNorm(channels)
        self.lin = Linear(channels, channels)
        self.target_lin = Linear(channels, heads)
        self.source_lin = Linear(channels, heads, bias=False)
        self.mlp = Sequential(*feed_forward(2 * channels, channels, dropout))

    def forward(self, x: Tensor, edge_index: Tensor, edge_state: Tensor | None) -> Tensor:
        source, target = edge_index[0], edge_index[1]
        z = self.lin(self.norm(x))
        # [N, H] -> [E, H]
        scores = gather(self.target_lin(z), target) + gather(self.source_lin(z), source)
        weight = softmax(F.leaky_relu(scores, 0.2), target, num_nodes=len(x))
        # [E, H, d] -> [N, F]
        message = weight.unsqueeze(-1) * gather(z.unflatten(-1, (self.heads, -1)), source)
        read = scatter(message, target, dim_size=len(x), reduce="sum").flatten(1)
        out: Tensor = x + self.mlp(torch.cat([z, read], dim=-1))
        return out
