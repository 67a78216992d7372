"""Models that weigh the message along each edge: by a sign (FAGCN), or between two kernels."""

from __future__ import annotations

from itertools import pairwise
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, ModuleList
from torch_geometric.nn import FAConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from torch_grama.baselines.graph_head import GraphHead, NodeOutput
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import mean_adjacency


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
        self.convs = self.per_layer(
            lambda: FAConv(self.hidden_channels, eps=eps, dropout=self.dropout, normalize=False)  # type: ignore[abstract]
        )
        self.head = GraphHead(self.hidden_channels, self.out_channels, self.readout, num_layers=1)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
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


class GBKGNN(GraphModel):
    r"""The GraphSAGE form of `"GBK-GNN: Gated Bi-Kernel Graph Neural Networks for Modeling Both
    Homophily and Heterophily" <https://arxiv.org/abs/2110.15777>`_.

    .. math::
        s_{ij} &= \mathrm{sigmoid} \big( \mathrm{LeakyReLU}_{0.2} (\mathbf{a}_l^{\top} \mathbf{W}
        \mathbf{h}_j + \mathbf{a}_r^{\top} \mathbf{W} \mathbf{h}_i) \big), \\
        \mathbf{h}'_i &= \mathbf{W}_f \mathbf{h}_i + \frac{1}{|\mathcal{N}(i)|}
        \sum_{j \in \mathcal{N}(i)} \big( s_{ij} \mathbf{W}_s \mathbf{h}_j +
        (1 - s_{ij}) \mathbf{W}_d \mathbf{h}_j \big) + \mathbf{b},

    with ReLU and dropout between the layers. The gate is taught by
    :meth:`auxiliary_loss`, the cross-entropy of :math:`s_{ij}` against "same class" on edges
    between training nodes, summed over the layers and times :math:`\lambda`.

    .. note::
        The released code takes :math:`\mathbf{h}_i` in place of :math:`\mathbf{h}_j` in the second
        sum, puts the two sums side by side at even widths, and applies a softmax to the gate before
        the cross-entropy; here all three are as in the paper.

    Args:
        num_layers (int): Number of layers; the last makes the output.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
        dropout (float, optional): Dropout after each hidden layer.
        gate_loss_weight (float, optional): The weight :math:`\lambda`.
    """

    card = Card(
        equation="h_i <- W_f h_i + mean_j (s_ij W_s h_j + (1 - s_ij) W_d h_j)",
        reference="Du et al., GBK-GNN: Gated Bi-Kernel Graph Neural Networks, 2022 "
        "(arXiv:2110.15777)",
        cost="N F^2 + E F",
        departures=(
            "A training loop has to add auxiliary_loss, which teaches the gates, as the one here "
            "does; without, they learn from the task alone.",
            "Follows the paper where the released code differs: neighbours in both sums, the sums "
            "added, plain cross-entropy of the gate.",
        ),
    )

    def __init__(
        self, *sizes: int, gate_loss_weight: float = 30.0, **shared: Unpack[ModelOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
        self.head = NodeOutput(self.readout)
        self.gate_loss_weight = gate_loss_weight
        self.convs = ModuleList(GatedBiKernelConv(*pair) for pair in pairwise(self.widths))

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        out, _ = self._run(x, graph.edge_index, graph.edge_weight)
        return out

    def auxiliary_loss(
        self,
        y: Tensor,
        mask: Tensor,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *others: Tensor | int | None,
    ) -> Tensor:
        r"""Returns how badly the gates tell edges inside a class from edges between classes.

        See :class:`~torch_grama.training.model_hooks.AddsLoss`. Zero where no edge joins two
        training nodes.
        """
        _, logits = self._run(x, edge_index, edge_weight)
        source, target = edge_index[0], edge_index[1]
        known = (mask[source] & mask[target]).to(x.dtype)
        alike = (y[source] == y[target]).to(x.dtype)
        total = x.new_zeros(())
        for logit in logits:
            loss = F.binary_cross_entropy_with_logits(
                logit.to(x.dtype), alike, known, reduction="sum"
            )
            total = total + loss / known.sum().clamp(min=1)
        return self.gate_loss_weight * total

    def _run(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """The output of the last layer and the gates of all, before the sigmoid."""
        mean = mean_adjacency(edge_index, edge_weight, x.size(0), x.dtype)
        logits = []
        for layer, conv in enumerate(self.convs):
            if layer > 0:
                x = F.dropout(F.relu(x), self.dropout, self.training)
            x, logit = conv(x, mean)
            logits.append(logit)
        return x, logits


class GatedBiKernelConv(Module):
    r"""One layer of :class:`GBKGNN`; returns the states and the gates before the sigmoid."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.gate_lin = Linear(in_channels, out_channels, bias=False)
        self.gate = Linear(out_channels, 2, bias=False)
        self.root_lin = Linear(in_channels, out_channels)
        self.same_lin = Linear(in_channels, out_channels, bias=False)
        self.different_lin = Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, mean: Adjacency) -> tuple[Tensor, Tensor]:
        # [N, F] -> [N, 2]: as the source and as the target of an edge
        sends, receives = self.gate(self.gate_lin(x)).unbind(dim=-1)
        logit = F.leaky_relu(sends[mean.source] + receives[mean.target], 0.2)
        same = logit.sigmoid()
        # one pass over the edges for both sums: [N, 2 F']
        both = torch.cat([self.same_lin(x), self.different_lin(x)], dim=-1)[mean.source]
        like, unlike = (both * mean.value.unsqueeze(-1)).chunk(2, dim=-1)
        messages = same.unsqueeze(-1) * like + (1 - same).unsqueeze(-1) * unlike
        own = self.root_lin(x)
        # under autocast the two differ in type
        return own.index_add(0, mean.target, messages.to(own.dtype)), logit
