"""Graph-coupled oscillators."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear
from torch_geometric.nn import GATConv, GCNConv

from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.nn.arguments import Activation, check_positive, choose, resolve_activation
from torch_grama.nn.graph_input import GraphInput

COUPLINGS = {"gcn": "graph convolution", "gat": "graph attention"}


class GraphCON(EncodedModel):
    r"""The model of `"Graph-Coupled Oscillator Networks" <https://arxiv.org/abs/2202.02296>`_:
    the nodes are damped oscillators, driven through the graph,

    .. math::
        \mathbf{Y} &\leftarrow \mathbf{Y} + \Delta t \left( \sigma( \mathrm{F}(\mathbf{X}) +
        \mathbf{R} \mathbf{X} ) - \gamma \, \mathbf{X} - \alpha \, \mathbf{Y} \right), \\
        \mathbf{X} &\leftarrow \mathbf{X} + \Delta t \, \mathbf{Y},

    where :math:`\mathrm{F}` is a graph convolution, or a graph attention whose heads are averaged
    after the activation. All layers share the weights; both states start at the encoder's output.

    .. note::
        The linear term :math:`\mathbf{R}` is in the released code and not in the paper's equation
        (``residual=False``). The released attention model averages neighbouring channels of the
        concatenated heads; here the heads are averaged. With :math:`\Delta t = \alpha = \gamma =
        1`, the defaults of the released code, the oscillator is lost: the update is
        :math:`\mathbf{X} \leftarrow \sigma(\mathrm{F}(\mathbf{X}) + \mathbf{R} \mathbf{X})`.

    Args:
        num_layers (int): Number of steps.
        dropout (float, optional): Dropout of both states after the encoder and each step, and in
            the readout.
        act (str or callable, optional): The activation :math:`\sigma`.
        coupling (str, optional): ``"gcn"`` or ``"gat"``.
        heads (int, optional): Number of heads of the attention.
        step_size (float, optional): The step size :math:`\Delta t`.
        alpha (float, optional): The damping.
        gamma (float, optional): The squared frequency.
        residual (bool, optional): Whether the linear term is added.
    """

    card = Card(
        equation="Y += dt (act(GCN(X) + R X) - gamma X - alpha Y); X += dt Y",
        reference="Rusch et al., Graph-Coupled Oscillator Networks, 2022",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        departures=("The linear term R X of the released code, which the paper's equation lacks.",),
    )

    def __init__(
        self,
        *sizes: int,
        act: str | Activation | None = "relu",
        coupling: str = "gcn",
        heads: int = 1,
        step_size: float = 0.5,
        alpha: float = 1.0,
        gamma: float = 1.0,
        residual: bool = True,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        check_positive(heads=heads)
        choose("coupling", coupling, COUPLINGS)
        if coupling == "gcn" and heads != 1:
            raise ValueError(f"Expected heads=1 for coupling='gcn' (got {heads})")
        super().__init__(*sizes, act=act, **shared)
        self.coupling = coupling
        self.takes_edge_weight = coupling == "gcn"
        self.heads = heads
        self.step_size = step_size
        self.alpha = alpha
        self.gamma = gamma
        self.act = resolve_activation(act)
        self.conv = (
            GCNConv(self.hidden_channels, self.hidden_channels)  # type: ignore[abstract]
            if coupling == "gcn"
            else GATConv(self.hidden_channels, self.hidden_channels, heads=heads)  # type: ignore[abstract]
        )
        self.skip_lin = (
            Linear(self.hidden_channels, heads * self.hidden_channels) if residual else None
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Moves positions and velocities."""
        y = x
        for _ in range(self.num_layers):
            force = self._drive(x, graph) - self.gamma * x - self.alpha * y
            y = y + self.step_size * force
            x = x + self.step_size * y
            y, x = (F.dropout(state, self.dropout, self.training) for state in (y, x))
        return x

    def _drive(self, x: Tensor, graph: GraphInput) -> Tensor:
        if self.coupling == "gcn":
            drive = self.conv(x, graph.edge_index, graph.edge_weight)
        else:
            drive = self.conv(x, graph.edge_index)
        if self.skip_lin is not None:
            drive = drive + self.skip_lin(x)
        # [N, H F] -> [N, H, F] -> [N, F]
        return self.act(drive).view(x.size(0), self.heads, -1).mean(dim=1)

    def _describe(self) -> str:
        return f", coupling={self.coupling!r}"
