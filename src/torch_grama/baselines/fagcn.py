"""FAGCN: signed attention between low and high frequencies."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, ModuleList
from torch_geometric.nn import FAConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.nn.graph_input import GraphInput


class FAGCN(GraphModel):
    r"""The model of `"Beyond Low-Frequency Information in Graph Convolutional Networks"
    <https://arxiv.org/abs/2101.00797>`_, by PyG's :class:`~torch_geometric.nn.FAConv`.

    .. math::
        \mathbf{h}_i^{(0)} = \sigma(\mathbf{W}_1 \mathbf{x}_i + \mathbf{b}_1), \qquad
        \mathbf{h}_i^{(l)} = \epsilon \, \mathbf{h}_i^{(0)} + \sum_{j \in \mathcal{N}(i)}
        \frac{\tanh \big( \mathbf{g}_l^{\top} [\mathbf{h}_i^{(l-1)} \,\Vert\,
        \mathbf{h}_j^{(l-1)}] \big)}{\sqrt{d_i d_j}} \, \mathbf{h}_j^{(l-1)}, \qquad
        \mathbf{y}_i = \mathbf{W}_2 \mathbf{h}_i^{(L)} + \mathbf{b}_2,

    where :math:`d_i` counts the edges of node :math:`i`; no self-loops are added.

    Args:
        num_layers (int): Number of layers :math:`L`.
        dropout (float, optional): Dropout of the features, of the first states and of the
            attention.
        eps (float, optional): How much of the first state is kept.
    """

    card = Card(
        equation="h_i <- eps h_i^0 + sum_j tanh(g^T [h_i | h_j]) / sqrt(d_i d_j) h_j",
        reference="Bo et al., Beyond Low-Frequency Information in Graph Convolutional Networks, "
        "2021 (arXiv:2101.00797)",
        cost="N F + E F",
        source="torch_geometric.nn.FAConv",
    )

    def __init__(self, *sizes: int, eps: float = 0.3, **shared: Unpack[ModelOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.lin = Linear(self.in_channels, self.hidden_channels)
        self.convs = ModuleList(
            FAConv(self.hidden_channels, eps=eps, dropout=self.dropout, normalize=False)  # type: ignore[abstract]
            for _ in range(self.num_layers)
        )
        self.head = GraphHead(self.hidden_channels, self.out_channels, self.readout, num_layers=1)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Returns what the head reads. Edge attributes are not used."""
        # normalised once for all layers
        edges = gcn_norm(
            graph.edge_index,
            graph.edge_weight,
            graph.num_nodes,
            add_self_loops=False,
            dtype=x.dtype,
        )
        x = F.dropout(x, self.dropout, self.training)
        # [N, C] -> [N, F]
        first = F.dropout(F.relu(self.lin(x)), self.dropout, self.training)
        h = first
        for conv in self.convs:
            h = conv(h, first, *edges)
        return h
