"""Attention along the edges, of a node among its neighbours or apart from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, ModuleList, Sequential
from torch_geometric.nn import TransformerConv
from torch_geometric.utils import add_self_loops, scatter, softmax

from torch_grama.baselines.branch_stack import EdgeOptions
from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.baselines.mlp import PLATONOV, feed_forward
from torch_grama.nn.graph_input import GraphInput


class EdgeAttention(EncodedModel):
    r"""What the models of the paper have around their layers: an activation before and a norm
    after.
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
    r"""The graph transformer of `"A critical look at the evaluation of GNNs under heterophily"
    <https://arxiv.org/abs/2302.11640>`_, whose attention is restricted to the edges:

    .. math::
        \mathbf{a}_i &= \Big\Vert_h \sum_{j \in \mathcal{N}(i) \cup \{i\}} \mathrm{softmax}_j
        \left( \frac{\mathbf{q}_{h,i}^\top \mathbf{k}_{h,j}}{\sqrt{d}} \right) \mathbf{v}_{h,j}, \\
        \mathbf{h}_i &= \mathbf{x}_i + \mathbf{W} \mathbf{a}_i, \qquad
        \mathbf{x}'_i = \mathbf{h}_i + \mathrm{FFN}(\mathrm{LN}(\mathbf{h}_i)),

    where queries, keys and values are maps of :math:`\mathrm{LN}(\mathbf{x})`. The variant with
    separation (GT-sep) leaves node :math:`i` out of the sum and has
    :math:`\mathbf{W} [\mathrm{LN}(\mathbf{x}_i) \Vert \mathbf{a}_i]` instead. The attention is
    PyG's :class:`~torch_geometric.nn.TransformerConv` without its skip connection.

    .. note::
        Edge attributes are added as :class:`~torch_geometric.nn.TransformerConv` does; the loop at
        a node has zeros.

    Args:
        dropout (float, optional): Dropout inside the layers.
        separate (bool, optional): Whether a node is kept apart from its neighbours.
    """

    card = Card(
        equation="h_i = x_i + W sum_j a_ij v_j, a_ij = softmax_j(q_i k_j / sqrt(d)) over the "
        "edges, z = LN(x), x' = h + FFN(LN(h))",
        reference=PLATONOV,
        cost="N F^2 + E F",
        source="torch_geometric.nn.TransformerConv",
        takes_edge_attr=True,
        departures=(
            "Edge attributes, which the paper does not have, are added to keys and values.",
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
        message = self.attention(normed, edge_index, edge_state)
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
    r"""GAT-sep of `"A critical look at the evaluation of GNNs under heterophily"
    <https://arxiv.org/abs/2302.11640>`_:

    .. math::
        \mathbf{z}_i &= \mathbf{W} \, \mathrm{LN}(\mathbf{x}_i), \qquad
        \mathbf{m}_i = \Big\Vert_h \sum_{j \in \mathcal{N}(i)} \mathrm{softmax}_j \big(
        \mathrm{LeakyReLU}(\mathbf{a}_h^\top \mathbf{z}_i + \mathbf{b}_h^\top \mathbf{z}_j) \big)
        \, \mathbf{z}_{h,j}, \\
        \mathbf{x}'_i &= \mathbf{x}_i + \mathrm{FFN}([\mathbf{z}_i \Vert \mathbf{m}_i]).

    Args:
        heads (int, optional): Number of heads.
        dropout (float, optional): Dropout inside the layers.
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
        scores = self.target_lin(z)[target] + self.source_lin(z)[source]
        weight = softmax(F.leaky_relu(scores, 0.2), target, num_nodes=len(x))
        # [E, H, d] -> [N, F]
        message = weight.unsqueeze(-1) * z.view(len(x), self.heads, -1)[source]
        read = scatter(message, target, dim_size=len(x), reduce="sum").flatten(1)
        out: Tensor = x + self.mlp(torch.cat([z, read], dim=-1))
        return out
