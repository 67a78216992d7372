"""Where the ARMA coefficients come from: free parameters, or attention over the pooled sequence."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from torch_grama.nn.grama_arguments import check_positive
from torch_grama.nn.graph_mean import count_graphs, graph_mean
from torch_grama.nn.initial_poles import coefficients_with_poles
from torch_grama.nn.normalization import DEFAULT_GUARD, choose_normalization


class ARMACoefficients(NamedTuple):
    r"""The coefficients that one block used.

    Attributes:
        phi: Autoregressive coefficients :math:`(B, p)`, newest first; :math:`(R, B, p)` when they
            are recomputed at every recurrence.
        theta: Moving-average coefficients :math:`(B, q)`, newest first; :math:`(R, B, q)` likewise.
    """

    phi: Tensor
    theta: Tensor


class NaiveCoefficients(Module):
    r"""Coefficients that are free parameters, the same for every graph.

    They start as one on the newest element and zero elsewhere, and pass through the normalisation
    in every forward pass.

    Args:
        order (int): Number of coefficients.
        normalization (str, optional): ``"sum"``, ``"l1"``, ``"softmax"`` or ``"none"``; see
            :mod:`torch_grama.nn.functional`. (default: :obj:`"sum"`)
        guard (float, optional): Bound below which the normalisation stops dividing.
            (default: :obj:`0.1`)
        initial_poles (float, optional): If set, start with the poles of
            :func:`~torch_grama.nn.functional.coefficients_with_poles` instead.
            (default: :obj:`None`)

    Shapes:
        - **input:** sequence :math:`(L, N, F)`, batch vector :math:`(N)` *(optional)*
        - **output:** coefficients :math:`(B, p)`, newest first

    Example:
        >>> NaiveCoefficients(order=3)(torch.randn(4, 10, 8))
        tensor([[1., 0., 0.]], grad_fn=<ExpandBackward0>)
    """

    def __init__(
        self,
        order: int,
        normalization: str = "sum",
        guard: float = DEFAULT_GUARD,
        initial_poles: float | None = None,
    ) -> None:
        super().__init__()
        check_positive(order=order)
        self.order = order
        self.normalization = normalization
        self.guard = guard
        self.initial_poles = initial_poles
        self._normalize = choose_normalization(normalization)
        self.weight = Parameter(torch.empty(order))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        with torch.no_grad():
            self.weight.copy_(_initial_coefficients(self))

    def forward(
        self, sequence: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        r"""Returns the coefficients :math:`(B, p)` of every graph."""
        return self.from_pooled(sequence).expand(count_graphs(batch, batch_size), -1)

    def from_pooled(self, pooled: Tensor) -> Tensor:
        r"""Returns the coefficients :math:`(1, p)` of all graphs; the argument is not read."""
        del pooled
        return self._normalize(self.weight, self.guard).unsqueeze(0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.order}, normalization='{self.normalization}')"


class SelectiveCoefficients(Module):
    r"""Coefficients that attend to the sequence of each graph.

    The sequence is averaged over the nodes of each graph. The newest element asks, the last
    :math:`p` elements answer:

    .. math::
        s_i = \frac{1}{H} \sum_{h=1}^{H}
        \frac{\mathbf{q}_h^{\top} \mathbf{k}_{i,h}}{\sqrt{F / H}} + b_i, \qquad
        \phi = \mathrm{normalize}(\tanh(s_1), \ldots, \tanh(s_p)),

    where :math:`\mathbf{q} = \mathbf{W}_q \bar{\mathbf{f}}^{(t-1)} + \mathbf{b}_q`,
    :math:`\mathbf{k}_i = \mathbf{W}_k \bar{\mathbf{f}}^{(t-i)}` and :math:`b_i` is a learned bias
    of each lag. With softmax normalisation the scores enter without the tanh.

    .. note::
        The paper leaves three things open. Heads are averaged before the tanh, so that their
        number only scales the scores by :math:`1 / \sqrt{H}`. Orders below the sequence length use
        the last :math:`p` elements, and these alone are normalised. The bias :math:`b_i` is ours:
        without it, the moving-average scores of the first block are exactly zero, since the last
        residual is, and the division is 0/0. It plays the part of a position embedding, and it
        starts positive and equal for all lags, so that a fresh model averages its past instead of
        dividing by the sum of random numbers of either sign.

    Args:
        channels (int): Width :math:`F` of the sequence.
        order (int): Number of coefficients.
        heads (int, optional): Number of attention heads :math:`H`. (default: :obj:`1`)
        normalization (str, optional): ``"sum"`` (the paper's), ``"l1"`` (always stable),
            ``"softmax"`` or ``"none"``. (default: :obj:`"sum"`)
        guard (float, optional): Bound below which the normalisation stops dividing.
            (default: :obj:`0.1`)
        initial_poles (float, optional): If set, the bias starts with the poles of
            :func:`~torch_grama.nn.functional.coefficients_with_poles`. (default: :obj:`None`)

    Shapes:
        - **input:** sequence :math:`(L, N, F)`, batch vector :math:`(N)` *(optional)*
        - **output:** coefficients :math:`(B, p)`, newest first
    """

    # Scores at which a fresh model starts, and the share of them that depends on the input.
    _initial_score = 1.0
    _initial_selectivity = 0.1

    def __init__(
        self,
        channels: int,
        order: int,
        heads: int = 1,
        normalization: str = "sum",
        guard: float = DEFAULT_GUARD,
        initial_poles: float | None = None,
    ) -> None:
        super().__init__()
        check_positive(order=order)
        if heads < 1 or channels % heads != 0:
            raise ValueError(
                f"Expected 'heads' to divide the number of channels "
                f"(got heads={heads}, channels={channels})"
            )
        self.channels = channels
        self.order = order
        self.heads = heads
        self.normalization = normalization
        self.guard = guard
        self.initial_poles = initial_poles
        self._normalize = choose_normalization(normalization)
        self.query_weight = Parameter(torch.empty(channels, channels))
        self.query_bias = Parameter(torch.empty(channels))
        self.key_weight = Parameter(torch.empty(channels, channels))
        self.lag_bias = Parameter(torch.empty(order))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        torch.nn.init.xavier_uniform_(self.query_weight)
        torch.nn.init.normal_(self.query_bias, std=1 / math.sqrt(self.channels))
        torch.nn.init.xavier_uniform_(self.key_weight, gain=self._initial_selectivity)
        with torch.no_grad():
            if self.initial_poles is None:
                self.lag_bias.fill_(self._initial_score)
            else:
                target = _initial_coefficients(self)
                if self.normalization != "none":
                    target = target * (math.tanh(self._initial_score) / target.abs().max())
                # tanh must be able to produce the target: at most 0.999 in absolute value
                self.lag_bias.copy_(target.clamp(-0.999, 0.999).atanh())

    def forward(
        self, sequence: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        r"""Returns the coefficients :math:`(B, p)` of every graph."""
        return self.from_pooled(graph_mean(sequence, batch, batch_size))

    def from_pooled(self, pooled: Tensor) -> Tensor:
        r"""Returns the coefficients :math:`(B, p)` for pooled sequences :math:`(B, L, F)`."""
        if pooled.size(1) < self.order or pooled.size(2) != self.channels:
            raise ValueError(
                f"Expected a sequence of at least {self.order} elements and {self.channels} "
                f"channels (got {pooled.size(1)} and {pooled.size(2)})"
            )
        with torch.autocast(pooled.device.type, enabled=False):
            pooled = pooled.to(self.key_weight.dtype)
            # q·(W_k f) = (W_k^T q)·f: one product with the sequence, no keys in memory
            query = pooled[:, -1] @ self.query_weight.t() + self.query_bias  # [B, F]
            asked = query @ self.key_weight  # [B, F]
            # [B, L, F] -> [B, p], oldest first -> newest first
            scores = (pooled[:, -self.order :] @ asked.unsqueeze(-1)).squeeze(-1).flip(-1)
            scores = scores / math.sqrt(self.channels * self.heads) + self.lag_bias
            if self.normalization != "softmax":
                scores = scores.tanh()
            return self._normalize(scores, self.guard)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, {self.order}, heads={self.heads}, "
            f"normalization='{self.normalization}')"
        )


def _initial_coefficients(module: NaiveCoefficients | SelectiveCoefficients) -> Tensor:
    if module.initial_poles is not None:
        return coefficients_with_poles(module.order, module.initial_poles, module.normalization)
    one_hot = torch.zeros(module.order, dtype=torch.float64)
    one_hot[0] = 1.0
    return one_hot
