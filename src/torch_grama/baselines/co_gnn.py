"""The cooperative graph neural network: nodes choose whether to listen and to broadcast."""

from __future__ import annotations

from itertools import pairwise
from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, LayerNorm, Linear, Module, ModuleList
from torch_geometric.nn import GraphConv

from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.nn.arguments import Activation, check_positive, choose, resolve_activation
from torch_grama.nn.graph_input import GraphInput

AGGREGATIONS = {"mean": "mean over the neighbours", "sum": "sum over the neighbours"}


class CoGNN(EncodedModel):
    r"""The model of `"Cooperative Graph Neural Networks" <https://arxiv.org/abs/2310.01267>`_.

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
    :math:`1 / (\mathrm{softplus}(\mathbf{t}^{\top} \mathbf{h}_i) + \tau_0)`.

    .. note::
        Action networks and layer norm are shared by all layers, as in the released code.

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
        reference="Finkelshtein et al., Cooperative Graph Neural Networks, 2024",
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
        act: str | Activation | None = "relu",
        aggregation: str = "mean",
        action_channels: int = 16,
        action_layers: int = 1,
        min_sharpness: float = 0.5,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        check_positive(action_channels=action_channels, action_layers=action_layers)
        choose("aggregation", aggregation, AGGREGATIONS)
        if min_sharpness <= 0:
            raise ValueError(f"Expected 'min_sharpness' to be positive (got {min_sharpness})")
        super().__init__(*sizes, act=act, **shared)
        self.act = resolve_activation(act)
        self.aggregation = aggregation
        self.min_sharpness = min_sharpness
        self.norm = LayerNorm(self.hidden_channels)
        self.convs = self.per_layer(
            lambda: _conv(self.hidden_channels, self.hidden_channels, aggregation)
        )
        widths = [self.hidden_channels] + [action_channels] * (action_layers - 1) + [2]
        self.listen = _ActionNetwork(widths, aggregation, self.act, self.dropout)
        self.broadcast = _ActionNetwork(widths, aggregation, self.act, self.dropout)
        self.sharpness = Linear(self.hidden_channels, 1, bias=False)

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
            update = self.act(conv(x, graph.edge_index, weight))
            x = x + F.dropout(update, self.dropout, self.training)
        out: Tensor = self.norm(x)
        return out

    def _choose(self, x: Tensor, graph: GraphInput) -> tuple[Tensor, Tensor]:
        # the first of the two logits stands for listening, or for broadcasting
        listen = self.listen(x, graph)
        broadcast = self.broadcast(x, graph)
        if not self.training:
            return (
                (listen[:, 0] >= listen[:, 1]).to(x.dtype),
                (broadcast[:, 0] >= broadcast[:, 1]).to(x.dtype),
            )
        # [N, F] -> [N, 1]
        temperature = 1 / (F.softplus(self.sharpness(x)) + self.min_sharpness)
        return (
            F.gumbel_softmax(listen, temperature, hard=True)[:, 0],  # type: ignore[arg-type]
            F.gumbel_softmax(broadcast, temperature, hard=True)[:, 0],  # type: ignore[arg-type]
        )


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
            x = self.dropout(self.act(conv(x, graph.edge_index, graph.edge_weight)))
        logits: Tensor = self.convs[-1](x, graph.edge_index, graph.edge_weight)
        return logits


def _conv(in_channels: int, out_channels: int, aggregation: str) -> GraphConv:
    return GraphConv(in_channels, out_channels, aggr=aggregation)  # type: ignore[abstract]
