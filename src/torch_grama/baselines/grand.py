"""Graph neural diffusion: heat diffusion whose conductivity is an attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric.nn.inits import reset
from torch_geometric.utils import add_remaining_self_loops, softmax

from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.baselines.integrators import METHODS
from torch_grama.baselines.layer_stack import require_hidden_width
from torch_grama.baselines.neighbor_sum import sum_neighbors
from torch_grama.nn.arguments import Activation, check_positive, choose
from torch_grama.nn.graph_input import GraphInput


class GRAND(GraphModel):
    r"""The model of `"GRAND: Graph Neural Diffusion" <https://arxiv.org/abs/2106.10934>`_:

    .. math::
        \frac{d \mathbf{X}}{dt} = \alpha \left( \mathbf{A}(\mathbf{X}) - \mathbf{I} \right)
        \mathbf{X} \; [+ \, \beta \, \mathbf{X}(0)], \qquad
        a_{ij} = \frac{1}{H} \sum_{h=1}^H \mathrm{softmax}_j
        \frac{(\mathbf{K}_h \mathbf{x}_i)^{\top} \mathbf{Q}_h \mathbf{x}_j}{\sqrt{d_h}},

    over the neighbours :math:`j` of :math:`i` and :math:`i` itself, with :math:`\alpha` the
    logistic function of a learned number. The linear model computes the attention once, from
    :math:`\mathbf{X}(0)`; the non-linear one from the current state. Parameters do not depend on
    time: a layer is a step of the solver.

    .. note::
        The paper solves the equation with an adaptive method and tunes the time; here the steps
        are fixed and the time is ``num_layers * step_size``. Attention is that of the released
        code, with the root in the denominator that the paper's formula lacks. Keys and queries
        start at random, not at a small constant. Rewiring and positional features are not part of
        this model.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of steps.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after the encoder and in the readout.
            (default: :obj:`0.0`)
        act (str or callable, optional): Activation of the readout. (default: :obj:`"relu"`)
        linear (bool, optional): Whether the attention is computed once. (default: :obj:`True`)
        step_size (float, optional): The step size. (default: :obj:`1.0`)
        method (str, optional): ``"rk4"`` or ``"euler"``. (default: :obj:`"rk4"`)
        heads (int, optional): Number :math:`H` of heads. (default: :obj:`1`)
        source (bool, optional): Whether the source term with the learned :math:`\beta`, which
            starts at zero, is added. (default: :obj:`False`)
        pre_linear (bool, optional): Whether a linear map to the hidden width comes first; without,
            the features must have that width already. (default: :obj:`True`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
    """

    takes_edge_weight: bool = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        act: str | Activation | None = "relu",
        linear: bool = True,
        step_size: float = 1.0,
        method: str = "rk4",
        heads: int = 1,
        source: bool = False,
        pre_linear: bool = True,
        readout_layers: int = 2,
    ) -> None:
        check_positive(num_layers=num_layers)
        require_hidden_width("GRAND", in_channels, hidden_channels, pre_linear)
        super().__init__(
            FeatureEncoder(in_channels, hidden_channels, pre_linear, dropout),
            GraphHead(hidden_channels, out_channels, readout, readout_layers, act, dropout),
        )
        self.num_layers = num_layers
        self.linear = linear
        self.step_size = step_size
        self.step = choose("method", method, METHODS)
        self.attention = _EdgeAttention(hidden_channels, heads)
        self.alpha = Parameter(torch.empty(()))
        self.beta = Parameter(torch.empty(())) if source else None
        self._reset_rates()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        self._reset_rates()

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Integrates the diffusion."""
        edge_index, _ = add_remaining_self_loops(graph.edge_index, num_nodes=graph.num_nodes)
        first, rate = x, self.alpha.sigmoid()
        constant = self.attention(x, edge_index) if self.linear else None

        def flow(state: Tensor) -> Tensor:
            weight = self.attention(state, edge_index) if constant is None else constant
            change = rate * (sum_neighbors(state, edge_index, weight) - state)
            return change if self.beta is None else change + self.beta * first

        for _ in range(self.num_layers):
            x = self.step(flow, x, self.step_size)
        return x

    def _reset_rates(self) -> None:
        torch.nn.init.zeros_(self.alpha)
        if self.beta is not None:
            torch.nn.init.zeros_(self.beta)

    def _describe(self) -> str:
        return f", num_layers={self.num_layers}, linear={self.linear}"


class _EdgeAttention(Module):
    r"""Scaled dot-product attention of each node to its neighbours, the mean over the heads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or channels % heads != 0:
            raise ValueError(
                f"Expected 'heads' to divide hidden_channels (got heads={heads}, "
                f"hidden_channels={channels})"
            )
        self.heads = heads
        self.key_lin = Linear(channels, channels)
        self.query_lin = Linear(channels, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.key_lin)
        reset(self.query_lin)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        r"""Returns one weight an edge."""
        source, target = edge_index
        # [N, F] -> [N, H, F / H]
        key = self.key_lin(x).view(x.size(0), self.heads, -1)
        query = self.query_lin(x).view(x.size(0), self.heads, -1)
        score = (key[target] * query[source]).sum(dim=-1) / math.sqrt(key.size(-1))
        return softmax(score, target, num_nodes=x.size(0)).mean(dim=-1)
