"""Models that weigh the message along each edge: by a sign, by a gate, or by choice."""

from __future__ import annotations

from itertools import pairwise
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, LayerNorm, Linear, Module, ModuleList
from torch_geometric.nn import FAConv, GraphConv

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions, ScoreModel
from torch_grama.baselines.layer_stack import ActOptions, EncodedModel
from torch_grama.nn.arguments import Activation, check_number, check_positive, choose
from torch_grama.nn.engine.adjacency import Adjacency, gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import mean_adjacency, shared_gcn_adjacency
from torch_grama.nn.neighbor_convs import convolve


class FAGCN(GraphModel):
    r"""Messages with a learned sign and size:

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
        self.head = self.build_head()

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        # normalised once for all layers
        matrix = shared_gcn_adjacency(graph, x.dtype, None)
        edge_index = torch.stack([matrix.source, matrix.target])
        x = F.dropout(x, self.dropout, self.training)
        # [N, C] -> [N, F]
        first = F.dropout(F.relu(self.lin(x)), self.dropout, self.training)
        h = first
        for conv in self.convs:
            h = convolve(conv, h, first, edge_index, matrix.value)
        return h


class GBKGNN(ScoreModel):
    r"""Two kernels, for neighbours of the same and of another class, and a gate between them:

    .. math::
        s_{ij} &= \mathrm{sigmoid} \big( \mathrm{LeakyReLU}_{0.2} (\mathbf{a}_l^{\top} \mathbf{W}
        \mathbf{h}_j + \mathbf{a}_r^{\top} \mathbf{W} \mathbf{h}_i) \big), \\
        \mathbf{h}'_i &= \mathbf{W}_f \mathbf{h}_i + \frac{1}{|\mathcal{N}(i)|}
        \sum_{j \in \mathcal{N}(i)} \big( s_{ij} \mathbf{W}_s \mathbf{h}_j +
        (1 - s_{ij}) \mathbf{W}_d \mathbf{h}_j \big) + \mathbf{b},

    with ReLU and dropout between the layers. The gate is taught by
    :meth:`auxiliary_loss`, the cross-entropy of :math:`s_{ij}` against "same class" on edges
    between training nodes, summed over the layers and times :math:`\lambda`.

    Args:
        num_layers (int): Number of layers; the last makes the output.
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
            "Follows the paper where the released code differs: neighbours in both sums (it has "
            "h_i in the second), the sums added (it puts them side by side at even widths), plain "
            "cross-entropy of the gate (it applies a softmax before).",
        ),
    )

    def __init__(
        self, *sizes: int, gate_loss_weight: float = 30.0, **shared: Unpack[ModelOptions]
    ) -> None:
        super().__init__(*sizes, **shared)
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
        r"""Returns how badly the gates tell edges inside a class from edges between classes, zero
        where no edge joins two training nodes; see
        :class:`~torch_grama.training.input_stage.AddsLoss`.
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
        logit = F.leaky_relu(gather(sends, mean.source) + gather(receives, mean.target), 0.2)
        same = logit.sigmoid()
        # one pass over the edges for both sums: [N, 2 F']
        both = torch.cat([self.same_lin(x), self.different_lin(x)], dim=-1)
        both = gather(both, mean.source)
        like, unlike = (both * mean.value.unsqueeze(-1)).chunk(2, dim=-1)
        messages = same.unsqueeze(-1) * like + (1 - same).unsqueeze(-1) * unlike
        return self.root_lin(x).to(messages.dtype).index_add(0, mean.target, messages), logit


AGGREGATIONS = {"mean": "mean over the neighbours", "sum": "sum over the neighbours"}


class CoGNN(EncodedModel):
    r"""Nodes that choose to listen and to broadcast.

    Two action networks :math:`\pi` tell in every layer, for every node, whether it listens and
    whether it broadcasts, and the environment network :math:`\eta` passes messages along the
    edges whose source broadcasts and whose target listens:

    .. math::
        \mathbf{h} &= \mathrm{LayerNorm}(\mathbf{x}), \qquad
        \ell_i = \mathrm{choice}(\pi_{in}(\mathbf{h})_i), \qquad
        b_i = \mathrm{choice}(\pi_{out}(\mathbf{h})_i), \\
        \mathbf{x}'_i &= \mathbf{h}_i + \sigma \Big( \mathbf{W}_1 \mathbf{h}_i + \mathbf{W}_2
        \bigoplus_{j \in \mathcal{N}(i)} \ell_i \, b_j \, \mathbf{h}_j + \mathbf{b} \Big),

    where :math:`\bigoplus` is the mean over all neighbours, or the sum, in both networks:
    CO-GNN(:math:`\mu, \mu`) or CO-GNN(:math:`\Sigma, \Sigma`). In training the choice is a hard
    Gumbel-softmax sample with straight-through gradients and the learned temperature
    :math:`1 / (\mathrm{softplus}(\mathbf{t}^{\top} \mathbf{h}_i) + \tau_0)`. Action networks and
    layer norm are shared by all layers, as in the released code.

    Args:
        num_layers (int): Number of layers of the environment network.
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
        act (str or callable, optional): The activation :math:`\sigma`.
        aggregation (str, optional): ``"mean"`` or ``"sum"``.
        action_channels (int, optional): Width of the action networks.
        action_layers (int, optional): Number of their layers.
        min_sharpness (float, optional): The smallest inverse temperature :math:`\tau_0`.
    """

    card = Card(
        equation="x_i' = h_i + act(W1 h_i + W2 mean_j listen_i broadcast_j h_j + b), "
        "h = LayerNorm(x)",
        reference="Finkelshtein et al., Cooperative Graph Neural Networks, 2024 (arXiv:2310.01267)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GraphConv and torch_grama",
        departures=(
            "In evaluation every node takes the likelier action; the released code draws samples.",
            "Edge attributes are ignored.",
        ),
    )
    shown = ("aggregation",)

    def __init__(
        self,
        *sizes: int,
        aggregation: str = "mean",
        action_channels: int = 16,
        action_layers: int = 1,
        min_sharpness: float = 0.5,
        **shared: Unpack[ActOptions],
    ) -> None:
        check_positive(action_channels=action_channels, action_layers=action_layers)
        choose("aggregation", aggregation, AGGREGATIONS)
        check_number("min_sharpness", min_sharpness, above=0)
        super().__init__(*sizes, **shared)
        self.aggregation, self.min_sharpness = aggregation, min_sharpness
        channels = self.hidden_channels
        self.norm = LayerNorm(channels)
        self.convs = self.per_layer(lambda: _conv(channels, channels, aggregation))
        widths = [channels] + [action_channels] * (action_layers - 1) + [2]
        self.listen = _ActionNetwork(widths, aggregation, self.act, self.dropout)
        self.broadcast = _ActionNetwork(widths, aggregation, self.act, self.dropout)
        self.sharpness = Linear(channels, 1, bias=False)

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        source, target = graph.edge_index
        x = self.act(x)
        for conv in self.convs:
            x = self.norm(x)
            # [N], [N] -> [E]: 1 for edges that remain, 0 for the others
            listens, broadcasts = self._choose(x, graph)
            weight = listens[target] * broadcasts[source]
            if graph.edge_weight is not None:
                weight = weight * graph.edge_weight
            update = self.act(convolve(conv, x, graph.edge_index, weight))
            x = x + F.dropout(update, self.dropout, self.training)
        out: Tensor = self.norm(x)
        return out

    def _choose(self, x: Tensor, graph: GraphInput) -> tuple[Tensor, Tensor]:
        # the first of the two logits stands for listening, or for broadcasting
        logits = [self.listen(x, graph), self.broadcast(x, graph)]
        if self.training:
            # [N, F] -> [N, 1]
            temperature = 1 / (F.softplus(self.sharpness(x)) + self.min_sharpness)
            chosen = [F.gumbel_softmax(part, temperature, hard=True)[:, 0] for part in logits]  # type: ignore[arg-type]
        else:
            chosen = [(part[:, 0] >= part[:, 1]).to(x.dtype) for part in logits]
        return chosen[0], chosen[1]


class _ActionNetwork(Module):
    r"""A small message-passing network from node states to the logits of two actions."""

    def __init__(
        self, widths: list[int], aggregation: str, act: Activation, dropout: float
    ) -> None:
        super().__init__()
        self.convs = ModuleList([_conv(*pair, aggregation) for pair in pairwise(widths)])
        self.act = act
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, graph: GraphInput) -> Tensor:
        for conv in self.convs[:-1]:
            x = convolve(conv, x, graph.edge_index, graph.edge_weight)
            x = self.dropout(self.act(x))
        logits: Tensor = convolve(self.convs[-1], x, graph.edge_index, graph.edge_weight)
        return logits


def _conv(in_channels: int, out_channels: int, aggregation: str) -> GraphConv:
    return GraphConv(in_channels, out_channels, aggr=aggregation)  # type: ignore[abstract]
