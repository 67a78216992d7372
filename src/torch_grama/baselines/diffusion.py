"""Models that follow a differential equation by steps: diffusion, and oscillators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.utils import add_remaining_self_loops, softmax

from torch_grama.baselines.graph_model import Card, check_heads
from torch_grama.baselines.layer_stack import ActOptions, EncodedModel
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine.adjacency import Adjacency, gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency
from torch_grama.nn.neighbor_convs import convolve


class DGC(EncodedModel):
    r"""A step of linear diffusion

    .. math::
        \frac{d \mathbf{X}}{dt} = - (\mathbf{I} - \hat{\mathbf{A}}) \, \mathbf{X}, \qquad
        \mathbf{X} \leftarrow (1 - \epsilon) \, \mathbf{X} + \epsilon \, \hat{\mathbf{A}} \mathbf{X}

    for each of the :math:`K` layers, where :math:`\hat{\mathbf{A}}` is the normalised adjacency
    matrix with self-loops. The layers have no parameters; :math:`\epsilon = 1` is the simplified
    graph convolution. The paper names the terminal time :math:`T = K \epsilon` in place of the step
    size.

    Args:
        num_layers (int): Number :math:`K` of steps.
        step_size (float, optional): The step size :math:`\epsilon`.
        method (str, optional): ``"euler"`` or ``"rk4"``.
    """

    card = Card(
        equation="X <- X - epsilon (I - A_hat) X",
        reference="Wang et al., Dissecting the Diffusion Process in Linear Graph Convolutional "
        "Networks, 2021 (arXiv:2102.10739)",
        cost="E F",
        departures=(
            "Encoded features are diffused; pre_linear=False and readout_layers=1 is the paper's.",
        ),
    )
    shown = ("step_size",)

    def __init__(
        self,
        *sizes: int,
        step_size: float = 0.5,
        method: str = "euler",
        **shared: Unpack[ActOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.step_size = step_size
        self.step = choose("method", method, METHODS)

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        matrix = shared_gcn_adjacency(graph, x.dtype)

        def flow(state: Tensor) -> Tensor:
            return propagate(matrix, state) - state

        for _ in range(self.num_layers):
            x = self.step(flow, x, self.step_size)
        return x


class GRAND(EncodedModel):
    r"""Diffusion by attention:

    .. math::
        \frac{d \mathbf{X}}{dt} = \alpha \left( \mathbf{A}(\mathbf{X}) - \mathbf{I} \right)
        \mathbf{X} \; [+ \, \beta \, \mathbf{X}(0)], \qquad
        a_{ij} = \frac{1}{H} \sum_{h=1}^H \mathrm{softmax}_j
        \frac{(\mathbf{K}_h \mathbf{x}_i)^{\top} \mathbf{Q}_h \mathbf{x}_j}{\sqrt{d_h}},

    over the neighbours :math:`j` of :math:`i` and :math:`i` itself, with :math:`\alpha` the
    logistic function of a learned number. The linear model computes the attention once, from
    :math:`\mathbf{X}(0)`; the non-linear one from the current state. Parameters do not depend on
    time: a layer is a step of the solver, and the time is ``num_layers * step_size``, which the
    paper tunes.

    Args:
        num_layers (int): Number of steps.
        linear (bool, optional): Whether the attention is computed once.
        step_size (float, optional): The step size.
        method (str, optional): ``"rk4"`` or ``"euler"``.
        heads (int, optional): Number :math:`H` of heads.
        source (bool, optional): Whether the source term with the learned :math:`\beta`, which
            starts at zero, is added.
    """

    card = Card(
        equation="dX/dt = alpha (A(X) - I) X, A row-stochastic attention on the edges",
        reference="Chamberlain et al., GRAND: Graph Neural Diffusion, 2021 (arXiv:2106.10934)",
        cost="4 (N F^2 + E F)",
        departures=(
            "Fixed Runge-Kutta steps instead of an adaptive solver; a layer is a step.",
            "Keys and queries start at random instead of at a small constant.",
            "Attention is that of the released code, with the root in the denominator that the "
            "paper's formula lacks.",
            "Rewiring and positional features are not part of this model.",
        ),
    )
    takes_edge_weight: bool = False
    shown = ("linear",)

    def __init__(
        self,
        *sizes: int,
        linear: bool = True,
        step_size: float = 1.0,
        method: str = "rk4",
        heads: int = 1,
        source: bool = False,
        **shared: Unpack[ActOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.linear, self.step_size = linear, step_size
        self.step = choose("method", method, METHODS)
        self.attention = _EdgeAttention(self.hidden_channels, heads)
        self.alpha = Parameter(torch.zeros(()))
        self.beta = Parameter(torch.zeros(())) if source else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for rate in (self.alpha, self.beta):
            if rate is not None:
                torch.nn.init.zeros_(rate)

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        edge_index, _ = add_remaining_self_loops(graph.edge_index, num_nodes=graph.num_nodes)
        source, target = edge_index
        first, rate = x, self.alpha.sigmoid()

        def attend(state: Tensor) -> Adjacency:
            return Adjacency(target, source, self.attention(state, edge_index), graph.num_nodes)

        constant = attend(x) if self.linear else None

        def flow(state: Tensor) -> Tensor:
            matrix = attend(state) if constant is None else constant
            change = rate * (matrix.propagate(state) - state)
            return change if self.beta is None else change + self.beta * first

        for _ in range(self.num_layers):
            x = self.step(flow, x, self.step_size)
        return x


class _EdgeAttention(Module):
    """Scaled dot-product attention of each node to its neighbours, the mean over the heads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        check_heads(channels, heads)
        self.heads = heads
        self.key_lin = Linear(channels, channels)
        self.query_lin = Linear(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        # [N, F] -> [N, H, F / H]
        key, query = (
            lin(x).unflatten(-1, (self.heads, -1)) for lin in (self.key_lin, self.query_lin)
        )
        score = (gather(key, target) * gather(query, source)).sum(dim=-1) / math.sqrt(key.size(-1))
        return softmax(score, target, num_nodes=x.size(0)).mean(dim=-1)


Field = Callable[[Tensor], Tensor]


def step_euler(field: Field, x: Tensor, step_size: float) -> Tensor:
    r"""Returns :math:`\mathbf{x} + h \, f(\mathbf{x})`."""
    return x + step_size * field(x)


def step_rk4(field: Field, x: Tensor, step_size: float) -> Tensor:
    r"""Returns the state after one classical Runge-Kutta step, exact to the fourth order."""
    k1 = field(x)
    k2 = field(x + 0.5 * step_size * k1)
    k3 = field(x + 0.5 * step_size * k2)
    k4 = field(x + step_size * k3)
    return x + step_size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


METHODS = {"euler": step_euler, "rk4": step_rk4}
COUPLINGS = {"gcn": "graph convolution", "gat": "graph attention"}


class GraphCON(EncodedModel):
    r"""Damped oscillators, one per node, driven through the graph:

    .. math::
        \mathbf{Y} &\leftarrow \mathbf{Y} + \Delta t \left( \sigma( \mathrm{F}(\mathbf{X}) +
        \mathbf{R} \mathbf{X} ) - \gamma \, \mathbf{X} - \alpha \, \mathbf{Y} \right), \\
        \mathbf{X} &\leftarrow \mathbf{X} + \Delta t \, \mathbf{Y},

    where :math:`\mathrm{F}` is a graph convolution, or a graph attention whose heads are averaged
    after the activation. All layers share the weights; both states start at the encoder's output.

    .. note::
        With :math:`\Delta t = \alpha = \gamma = 1`, the defaults of the released code, the
        oscillator is lost: the update is :math:`\mathbf{X} \leftarrow
        \sigma(\mathrm{F}(\mathbf{X}) + \mathbf{R} \mathbf{X})`.

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
        reference="Rusch et al., Graph-Coupled Oscillator Networks, 2022 (arXiv:2202.02296)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCNConv",
        departures=(
            "The linear term R X of the released code, which the paper's equation lacks "
            "(residual=False).",
        ),
    )
    shown = ("coupling",)

    def __init__(
        self,
        *sizes: int,
        coupling: str = "gcn",
        heads: int = 1,
        step_size: float = 0.5,
        alpha: float = 1.0,
        gamma: float = 1.0,
        residual: bool = True,
        **shared: Unpack[ActOptions],
    ) -> None:
        check_positive(heads=heads)
        choose("coupling", coupling, COUPLINGS)
        if coupling == "gcn" and heads != 1:
            raise ValueError(f"Expected heads=1 for coupling='gcn' (got {heads})")
        super().__init__(*sizes, **shared)
        self.coupling, self.heads = coupling, heads
        self.takes_edge_weight = coupling == "gcn"
        self.step_size, self.alpha, self.gamma = step_size, alpha, gamma
        width = self.hidden_channels
        if coupling == "gcn":
            self.conv: Module = GCNConv(width, width)  # type: ignore[abstract]
        else:
            self.conv = GATConv(width, width, heads=heads)  # type: ignore[abstract]
        self.skip_lin = Linear(width, heads * width) if residual else None

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        y = x
        for _ in range(self.num_layers):
            force = self._drive(x, graph) - self.gamma * x - self.alpha * y
            y = y + self.step_size * force
            x = x + self.step_size * y
            y, x = (F.dropout(state, self.dropout, self.training) for state in (y, x))
        return x

    def _drive(self, x: Tensor, graph: GraphInput) -> Tensor:
        # the attention knows no weights, and none came
        drive = convolve(self.conv, x, graph.edge_index, graph.edge_weight)
        if self.skip_lin is not None:
            drive = drive + self.skip_lin(x)
        # [N, H F] -> [N, H, F] -> [N, F]
        mean: Tensor = self.act(drive).unflatten(-1, (self.heads, -1)).mean(dim=1)
        return mean
