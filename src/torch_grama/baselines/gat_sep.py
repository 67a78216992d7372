"""Graph attention in which a node is kept apart from its neighbours."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import GELU, Dropout, LayerNorm, Linear, Module, Sequential
from torch_geometric.utils import scatter, softmax

from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.nn.graph_input import GraphInput


class GATSep(EncodedModel):
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
        reference="Platonov et al., A critical look at the evaluation of GNNs under heterophily, "
        "2023",
        cost="N F^2 + E F",
        source="torch_grama",
        departures=("The head is a readout MLP; the paper's is one linear map.",),
    )

    ignores_edge_weight: bool = True
    drops_ends = False

    def __init__(self, *sizes: int, heads: int = 8, **shared: Unpack[HeadOptions]) -> None:
        super().__init__(*sizes, **shared)
        check_heads(self.hidden_channels, heads)
        self.layers = self.per_layer(lambda: _Layer(self.hidden_channels, heads, self.dropout))
        self.norm = LayerNorm(self.hidden_channels)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        x = F.gelu(F.dropout(x, self.dropout, self.training))
        for layer in self.layers:
            x = layer(x, graph.edge_index)
        out: Tensor = self.norm(x)
        return out


class _Layer(Module):
    def __init__(self, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = LayerNorm(channels)
        self.lin = Linear(channels, channels)
        self.target_lin = Linear(channels, heads)
        self.source_lin = Linear(channels, heads, bias=False)
        self.mlp = Sequential(
            Linear(2 * channels, channels),
            Dropout(dropout),
            GELU(),
            Linear(channels, channels),
            Dropout(dropout),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
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
