"""Models that are a polynomial of the adjacency matrix, or go by one of its powers a layer."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Parameter
from torch_geometric.nn import SGConv
from torch_geometric.nn.models import MLP

from torch_grama.baselines.graph_model import Card, ModelOptions, ScoreModel
from torch_grama.baselines.layer_stack import ActOptions, EncodedModel
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_number, check_positive, choose
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency
from torch_grama.nn.neighbor_convs import build_gcn2_convs, convolve


class SGC(ScoreModel):
    r"""A linear model of the features, averaged over some hops:

    .. math::
        \mathbf{Y} = \hat{\mathbf{A}}^K \mathbf{X} \mathbf{W} + \mathbf{b}, \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2}.

    Args:
        hidden_channels (int): Not used: the model has no hidden layer.
        num_layers (int): The power :math:`K`.
        dropout (float, optional): Dropout of the features.
    """

    card = Card(
        equation="Y = A^K X W + b",
        reference="Wu et al., Simplifying Graph Convolutional Networks, 2019 (arXiv:1902.07153)",
        cost="E C",
        source="torch_geometric.nn.SGConv",
    )

    def __init__(
        self, *sizes: int, depth: int | None = None, **shared: Unpack[ModelOptions]
    ) -> None:
        check_positive(depth=depth)
        super().__init__(*sizes, **shared)
        self.num_layers = depth or self.num_layers
        self.conv = SGConv(self.in_channels, self.out_channels, K=self.num_layers)  # type: ignore[abstract]

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        x = F.dropout(x, self.dropout, self.training)
        out: Tensor = convolve(self.conv, x, graph.edge_index, graph.edge_weight)
        return out


STARTS = {"ppr": "personalised PageRank", "random": "uniform, of absolute sum one"}


class GPRGNN(ScoreModel):
    r"""A learned polynomial of the adjacency matrix:

    .. math::
        \mathbf{Y} = \sum_{k=0}^{K} \gamma_k \hat{\mathbf{A}}^k \, \mathrm{MLP}(\mathbf{X}),
        \qquad \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    where the MLP has two layers and the :math:`\gamma_k` are learned, from
    :math:`\gamma_k = \alpha (1 - \alpha)^k` and :math:`\gamma_K = (1 - \alpha)^K`.

    Args:
        hidden_channels (int): Width of the hidden layer.
        num_layers (int): The highest power :math:`K`.
        dropout (float, optional): Dropout of the features and of the hidden layer.
        propagation_dropout (float, optional): Dropout before the propagation.
        alpha (float, optional): The :math:`\alpha` of the start.
        start (str, optional): ``"ppr"`` or ``"random"``.
    """

    card = Card(
        equation="Y = sum_k gamma_k A^k MLP(X),  gamma learned",
        reference="Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, "
        "2021 (arXiv:2006.07988)",
        cost="E C",
    )

    def __init__(
        self,
        *sizes: int,
        propagation_dropout: float = 0.0,
        alpha: float = 0.1,
        start: str = "ppr",
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        choose("start", start, STARTS)
        if not 0 <= alpha <= 1:
            raise ValueError(f"Expected 'alpha' to be between 0 and 1 (got {alpha})")
        self.alpha, self.start = alpha, start
        self.propagation_dropout = propagation_dropout
        widths = [self.in_channels, self.hidden_channels, self.out_channels]
        self.mlp = MLP(widths, dropout=self.dropout, norm=None)
        self.gamma = Parameter(torch.empty(self.num_layers + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            if self.start == "random":
                self.gamma.uniform_(-1, 1)
                self.gamma.div_(self.gamma.abs().sum())
            else:
                power = torch.arange(self.num_layers + 1, dtype=torch.float64)
                gamma = (1 - self.alpha) ** power
                gamma[:-1] *= self.alpha
                self.gamma.copy_(gamma)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        adjacency = shared_gcn_adjacency(graph, x.dtype)
        # [N, C_in] -> [N, C_out]
        h = self.mlp(F.dropout(x, self.dropout, self.training))
        h = F.dropout(h, self.propagation_dropout, self.training)
        out = self.gamma[0] * h
        for power in range(1, self.num_layers + 1):
            h = propagate(adjacency, h)
            out = out + self.gamma[power] * h
        return out


class JacobiConv(ScoreModel):
    r"""A polynomial of the adjacency matrix for each output, in a basis of Jacobi polynomials:

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

    Args:
        hidden_channels (int): Not used: the model is linear.
        num_layers (int): The degree :math:`K`.
        dropout (float, optional): Dropout of the features and before the filter.
        a (float, optional): First parameter of the polynomials, above -1.
        b (float, optional): Second parameter of the polynomials, above -1.
        factor (float, optional): The bound :math:`\gamma'` of the learned factors.
    """

    card = Card(
        equation="Y_c = sum_k beta_kc P_k(A) (X W)_c,  P_k Jacobi polynomials with learned factors",
        reference="Wang & Zhang, How Powerful are Spectral Graph Neural Networks, 2022 "
        "(arXiv:2205.11172)",
        cost="E C",
        departures=(
            "One learning rate and one dropout for all its parts; the released code has several.",
            "The sign of the constant term is that of Jacobi polynomials; the released code has "
            "the opposite one (no difference for a = b).",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        a: float = 0.0,
        b: float = 0.0,
        factor: float = 2.0,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        for name, value, bound in (("a", a, -1), ("b", b, -1), ("factor", factor, 0)):
            check_number(name, value, above=bound)
        self.factor = factor
        self.terms = [_recursion(k, a, b) for k in range(1, self.num_layers + 1)]
        self.lin = Linear(self.in_channels, self.out_channels)
        self.eta = Parameter(torch.empty(self.num_layers))
        self.beta = Parameter(torch.empty(self.num_layers + 1, self.out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        torch.nn.init.constant_(self.eta, min(1 / self.factor, 1.0))
        torch.nn.init.ones_(self.beta)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        adjacency = shared_gcn_adjacency(graph, x.dtype, loop_weight=None)
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
        return out


def _recursion(k: int, a: float, b: float) -> tuple[float, float, float]:
    """The factors of step k: of z, of one, and of the polynomial before the last."""
    if k == 1:
        return (a + b + 2) / 2, (a - b) / 2, 0.0
    total, double = k + a + b, 2 * k + a + b
    slope = double * (double - 1) / (2 * k * total)
    shift = (double - 1) * (a * a - b * b) / (2 * k * total * (double - 2))
    back = (k + a - 1) * (k + b - 1) * double / (k * total * (double - 2))
    return slope, shift, back


class GCNII(EncodedModel):
    r"""Graph convolutions that keep a share of the first state:

    .. math::
        \mathbf{X}^{(l)} = \sigma \left( \left( (1 - \alpha) \hat{\mathbf{A}} \mathbf{X}^{(l-1)} +
        \alpha \mathbf{X}^{(0)} \right) \left( (1 - \beta_l) \mathbf{I} + \beta_l \mathbf{W}_l
        \right) \right), \qquad \beta_l = \log \left( \frac{\theta}{l} + 1 \right),

    where :math:`\mathbf{X}^{(0)}` is the encoder's output after the activation and
    :math:`\hat{\mathbf{A}}` the normalised adjacency matrix with self-loops.

    Args:
        dropout (float, optional): Dropout after the encoder, each layer and in the readout.
        act (str or callable, optional): The activation :math:`\sigma`.
        alpha (float, optional): Weight of the initial residual.
        theta (float, optional): Damping of the weights; :obj:`None` sets :math:`\beta_l = 1`, the
            form of the Long Range Graph Benchmark (there with ``alpha=0.2``) and of the synthetic
            tasks.
        residual (bool, optional): Whether the input of a layer is added to its output.
    """

    card = Card(
        equation="X' = act(((1 - alpha) A_hat X + alpha X_0)((1 - beta_l) I + beta_l W)), beta_l "
        "= log(theta / l + 1)",
        reference="Chen et al., Simple and Deep Graph Convolutional Networks, 2020 "
        "(arXiv:2007.02133)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.GCN2Conv",
        departures=("Dropout follows each activation instead of preceding each layer.",),
    )

    def __init__(
        self,
        *sizes: int,
        alpha: float = 0.1,
        theta: float | None = 0.5,
        residual: bool = False,
        **shared: Unpack[ActOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        self.convs = build_gcn2_convs(self.hidden_channels, self.num_layers, alpha, theta)
        self.residual = residual

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        x = self.act(x)
        first = x
        for conv in self.convs:
            out = convolve(conv, x, first, graph.edge_index, graph.edge_weight)
            out = F.dropout(self.act(out), self.dropout, self.training)
            x = x + out if self.residual else out
        return x
