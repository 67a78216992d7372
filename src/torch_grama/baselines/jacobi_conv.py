"""JacobiConv: a linear model with a learned polynomial filter for each output."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Parameter

from torch_grama.baselines.fixed_product import propagate
from torch_grama.baselines.node_output import NodeOutput
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.linear_backbone import gcn_adjacency


class JacobiConv(SizedModule):
    r"""The model of `"How Powerful are Spectral Graph Neural Networks"
    <https://arxiv.org/abs/2205.11172>`_.

    .. math::
        \mathbf{Y}_{:c} = \sum_{k=0}^{K} \beta_{kc} \, P_k(\hat{\mathbf{A}})
        (\mathbf{X} \mathbf{W} + \mathbf{b})_{:c}, \qquad
        \hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2},

    with Jacobi polynomials whose every step has a learned factor
    :math:`\gamma_k = \gamma' \tanh \eta_k`:

    .. math::
        P_0 &= 1, \qquad P_1(z) = \gamma_1 \Big( \frac{a - b}{2} + \frac{a + b + 2}{2} z \Big), \\
        P_k(z) &= \gamma_k (\theta_k z + \theta'_k) P_{k-1}(z) -
        \gamma_k \gamma_{k-1} \theta''_k P_{k-2}(z), \\
        \theta_k &= \frac{(2k + a + b)(2k + a + b - 1)}{2k(k + a + b)}, \quad
        \theta'_k = \frac{(2k + a + b - 1)(a^2 - b^2)}{2k(k + a + b)(2k + a + b - 2)}, \\
        \theta''_k &= \frac{(k + a - 1)(k + b - 1)(2k + a + b)}{k(k + a + b)(2k + a + b - 2)}.

    .. note::
        The released code has the opposite sign at :math:`\theta'_k`. The sign here is that of
        Jacobi polynomials; for :math:`a = b` there is no difference.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Not used: the model is linear.
        out_channels (int): Width of the output.
        num_layers (int): The degree :math:`K`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
            (default: :obj:`"node"`)
        dropout (float, optional): Dropout of the features and before the filter.
            (default: :obj:`0.0`)
        a (float, optional): First parameter of the polynomials, above -1. (default: :obj:`0.0`)
        b (float, optional): Second parameter of the polynomials, above -1. (default: :obj:`0.0`)
        factor (float, optional): The bound :math:`\gamma'` of the learned factors.
            (default: :obj:`2.0`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`, edge weights
          :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        a: float = 0.0,
        b: float = 0.0,
        factor: float = 2.0,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        self.head = NodeOutput(readout)
        if min(a, b) <= -1:
            raise ValueError(f"Expected 'a' and 'b' above -1 (got a={a}, b={b})")
        if factor <= 0:
            raise ValueError(f"Expected 'factor' to be positive (got {factor})")
        self.factor = factor
        self.terms = [_recursion(k, a, b) for k in range(1, num_layers + 1)]
        self.lin = Linear(in_channels, out_channels)
        self.eta = Parameter(torch.empty(num_layers))
        self.beta = Parameter(torch.empty(num_layers + 1, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.lin.reset_parameters()
        torch.nn.init.constant_(self.eta, min(1 / self.factor, 1.0))
        torch.nn.init.ones_(self.beta)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; edge attributes are not used."""
        adjacency = gcn_adjacency(edge_index, edge_weight, x.size(0), x.dtype, loop_weight=None)
        # [N, C_in] -> [N, C_out]
        h = self.lin(F.dropout(x, self.dropout, self.training))
        h = F.dropout(h, self.dropout, self.training)
        gamma = self.factor * self.eta.tanh()
        before, last = torch.zeros_like(h), h
        out = self.beta[0] * h
        for k, (slope, shift, back) in enumerate(self.terms):
            step = slope * propagate(adjacency, last) + shift * last
            if k > 0:
                step = step - gamma[k - 1] * back * before
            before, last = last, gamma[k] * step
            out = out + self.beta[k + 1] * last
        result: Tensor = self.head(out, batch, batch_size)
        return result


def _recursion(k: int, a: float, b: float) -> tuple[float, float, float]:
    """The factors of step k: of z, of one, and of the polynomial before the last."""
    if k == 1:
        return (a + b + 2) / 2, (a - b) / 2, 0.0
    total, double = k + a + b, 2 * k + a + b
    slope = double * (double - 1) / (2 * k * total)
    shift = (double - 1) * (a * a - b * b) / (2 * k * total * (double - 2))
    back = (k + a - 1) * (k + b - 1) * double / (k * total * (double - 2))
    return slope, shift, back
