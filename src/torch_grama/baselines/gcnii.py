"""The deep graph convolutional network with initial residual and identity mapping."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import ModuleList
from torch_geometric.nn import GCN2Conv

from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.nn.arguments import Activation, resolve_activation
from torch_grama.nn.graph_input import GraphInput


class GCNII(EncodedModel):
    r"""The model of `"Simple and Deep Graph Convolutional Networks"
    <https://arxiv.org/abs/2007.02133>`_ on PyG's :class:`~torch_geometric.nn.GCN2Conv`:

    .. math::
        \mathbf{X}^{(l)} = \sigma \left( \left( (1 - \alpha) \hat{\mathbf{A}} \mathbf{X}^{(l-1)} +
        \alpha \mathbf{X}^{(0)} \right) \left( (1 - \beta_l) \mathbf{I} + \beta_l \mathbf{W}_l
        \right) \right), \qquad \beta_l = \log \left( \frac{\theta}{l} + 1 \right),

    where :math:`\mathbf{X}^{(0)}` is the encoder's output after the activation and
    :math:`\hat{\mathbf{A}}` the normalised adjacency matrix with self-loops.

    .. note::
        ``theta=None`` sets :math:`\beta_l = 1`, the form of the Long Range Graph Benchmark (there
        with ``alpha=0.2``) and of the synthetic tasks.

    Args:
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
        act (str or callable, optional): The activation :math:`\sigma`.
        alpha (float, optional): Weight of the initial residual.
        theta (float, optional): Damping of the weights, or :obj:`None`.
        residual (bool, optional): Whether the input of a layer is added to its output.
    """

    card = Card(
        equation="X' = act(((1 - alpha) A_hat X + alpha X_0)((1 - beta_l) I + beta_l W)), beta_l "
        "= log(theta / l + 1)",
        reference="Chen et al., Simple and Deep Graph Convolutional Networks, 2020",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCN2Conv",
        departures=("Dropout follows each activation instead of preceding each layer.",),
    )

    def __init__(
        self,
        *sizes: int,
        act: str | Activation | None = "relu",
        alpha: float = 0.1,
        theta: float | None = 0.5,
        residual: bool = False,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        super().__init__(*sizes, act=act, **shared)
        self.convs = ModuleList(
            [
                _conv(self.hidden_channels, alpha, theta, number)
                for number in range(1, self.num_layers + 1)
            ]
        )
        self.act = resolve_activation(act)
        self.residual = residual

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the layers, each of which sees the first state."""
        x = self.act(x)
        first = x
        for conv in self.convs:
            out = conv(x, first, graph.edge_index, graph.edge_weight)
            out = F.dropout(self.act(out), self.dropout, self.training)
            x = x + out if self.residual else out
        return x


def _conv(channels: int, alpha: float, theta: float | None, number: int) -> GCN2Conv:
    if theta is None:
        return GCN2Conv(channels, alpha)  # type: ignore[abstract]
    return GCN2Conv(channels, alpha, theta, number)  # type: ignore[abstract]
