"""Where the ARMA coefficients come from: free parameters, or attention over the pooled sequence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.sequence import (
    apply,
    forward_differences,
    handwritten_backward,
    handwritten_gradients_work,
)

KINDS = {
    "selective": "by attention over the sequence of each graph",
    "naive": "free parameters, the same for every graph",
    "fixed": "equal to the naive ones before training, and never trained",
}
UPDATES = {"block": "once per block", "step": "at every recurrence"}

# How many times faster than other parameters an optimiser moves what decides a few numbers: biases
# of the lags, and free coefficients, are kept divided by it.
PACE = 5.0
# The share of sum|c| below which the sum of the scores no longer divides them, and the sum|c| that
# scores are taken to have at least.
GUARD = 1 / 3
# What the coefficients (2, -1) of a wave are divided by, so that a tanh can reach and move them.
WAVE_RETENTION = 4.0
SMALLEST_TOTAL = 0.1


class ARMACoefficients(NamedTuple):
    r"""The coefficients that one block used.

    Attributes:
        phi: Autoregressive coefficients :math:`(B, p)`, newest first; :math:`(R, B, p)` when they
            are recomputed at every recurrence.
        theta: Moving-average coefficients :math:`(B, q)`, newest first; :math:`(R, B, q)` likewise.
    """

    phi: Tensor
    theta: Tensor


@dataclass(frozen=True)
class Coefficients:
    r"""Which kind of coefficients a model uses; each block builds its own.

    Args:
        kind (str, optional): ``"selective"``, ``"naive"`` or ``"fixed"``; see
            :class:`SelectiveCoefficients` and :class:`NaiveCoefficients`.
            (default: :obj:`"selective"`)
        ar_order (int, optional): Order :math:`p`. (default: the length of the sequence that the
            block receives)
        ma_order (int, optional): Order :math:`q`. (default: likewise)
        channels (int, optional): Width of queries and keys, of selective ones. (default: :obj:`16`)
        constraint (str, optional): The constraint on each set of coefficients: ``"sum"`` (they add
            up to one, as in the paper), ``"l1"`` (their absolute values do, which always satisfies
            the stability theorem), ``"softmax"`` (positive, and add up to one) or ``"none"``.
            (default: :obj:`"sum"`)
        poles (float, optional): Radius of the poles at initialisation; see
            :func:`coefficients_with_poles`. A block of ``gain="wave"`` sets its own.
            (default: :obj:`None`)
        update (str, optional): ``"block"``: once, so that the block is linear given its
            coefficients; ``"step"``: again at every recurrence, from the last :math:`L` elements.
            (default: :obj:`"block"`)

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> model = GRAMA(7, 32, 2, coefficients=Coefficients("naive", constraint="l1"))
    """

    kind: str = "selective"
    ar_order: int | None = None
    ma_order: int | None = None
    channels: int = 16
    constraint: str = "sum"
    poles: float | Literal["wave"] | None = None
    update: str = "block"

    def __post_init__(self) -> None:
        choose("coefficients.kind", self.kind, KINDS)
        choose("coefficients.constraint", self.constraint, CONSTRAINTS)
        choose("coefficients.update", self.update, UPDATES)
        check_positive(channels=self.channels)

    @classmethod
    def of(cls, given: str | Coefficients) -> Coefficients:
        r"""Returns what was given, or what the name of a kind stands for."""
        return given if isinstance(given, Coefficients) else cls(given)

    def check_orders(self, seq_len: int, num_recurrences: int | None = None) -> None:
        r"""Raises if an order is longer than the first sequence, or than that of later blocks."""
        for name, order in (("ar_order", self.ar_order), ("ma_order", self.ma_order)):
            if order is None:
                continue
            if not 1 <= order <= seq_len:
                raise ValueError(
                    f"Expected '{name}' to be between 1 and 'seq_len' (got {name}={order}, "
                    f"seq_len={seq_len})"
                )
            if num_recurrences is not None and order > num_recurrences:
                raise ValueError(
                    f"Expected '{name}' to fit the sequence of num_recurrences elements that the "
                    f"second block receives (got {name}={order}, "
                    f"num_recurrences={num_recurrences})"
                )

    def build(self, channels: int, seq_len: int) -> SelectiveCoefficients | NaiveCoefficients:
        r"""Makes the module of one block, whose sequence has the given width and length."""
        p = seq_len if self.ar_order is None else self.ar_order
        q = seq_len if self.ma_order is None else self.ma_order
        if self.kind == "selective":
            return SelectiveCoefficients(channels, p, q, self.channels, self.constraint, self.poles)
        return NaiveCoefficients(p, q, self.constraint, self.poles, self.kind == "naive")


class NaiveCoefficients(Module):
    r"""Coefficients that are free parameters, the same for every graph.

    They start as one on the newest element and zero elsewhere, and pass through the constraint in
    every forward pass.

    Args:
        ar_order (int): Number :math:`p` of autoregressive coefficients.
        ma_order (int): Number :math:`q` of moving-average coefficients.
        constraint (str, optional): That of :class:`Coefficients`. (default: :obj:`"sum"`)
        poles (float, optional): If set, the autoregressive ones start with the poles of
            :func:`coefficients_with_poles` instead. (default: :obj:`None`)
        learned (bool, optional): If :obj:`False`, they never change. (default: :obj:`True`)

    Shapes:
        - **output:** coefficients :math:`(1, p)` and :math:`(1, q)`, newest first

    Example:
        >>> NaiveCoefficients(3, 2)().phi
        tensor([[1., 0., 0.]], grad_fn=<AddBackward0>)
    """

    is_selective = False

    def __init__(
        self,
        ar_order: int,
        ma_order: int,
        constraint: str = "sum",
        poles: float | Literal["wave"] | None = None,
        learned: bool = True,
    ) -> None:
        super().__init__()
        check_positive(ar_order=ar_order, ma_order=ma_order)
        self.ar_order, self.ma_order = ar_order, ma_order
        self.constraint, self.poles = constraint, poles
        self._constrain = choose("constraint", constraint, CONSTRAINTS)
        self.weight = Parameter(torch.empty(ar_order + ma_order), requires_grad=learned)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        start = _initial(self.ar_order, self.ma_order, self.poles, self.constraint)
        with torch.no_grad():
            self.weight.copy_(torch.cat(start) / PACE)

    def forward(
        self, pooled_states: Tensor | None = None, pooled_residuals: Tensor | None = None
    ) -> ARMACoefficients:
        r"""Returns the coefficients of all graphs; the arguments are not read."""
        del pooled_states, pooled_residuals
        weight = (PACE * self.weight).unsqueeze(0)
        if self.ar_order == self.ma_order:
            # both at once: fewer operations, which are what so little work costs
            return ARMACoefficients(*self._constrain(weight.view(2, 1, -1)).unbind(0))
        phi, theta = weight.split([self.ar_order, self.ma_order], dim=-1)
        return ARMACoefficients(self._constrain(phi), self._constrain(theta))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.ar_order}, {self.ma_order}, "
            f"constraint='{self.constraint}')"
        )


class SelectiveCoefficients(Module):
    r"""Coefficients computed by attention over the sequence of each graph.

    The sequence is averaged over the nodes of each graph. The newest element gives the query, the
    last :math:`p` elements give the keys:

    .. math::
        s_i = \frac{\mathbf{q}^{\top} (\mathbf{k}_i - \bar{\mathbf{k}})}{\sqrt{D}} + b_i, \qquad
        \phi = \mathrm{constrain}(\tanh(s_1), \ldots, \tanh(s_p)),

    where :math:`\mathbf{q} = \mathbf{W}_q \mathbf{u}_1 + \mathbf{b}_q`,
    :math:`\mathbf{k}_i = \mathbf{W}_k \mathbf{u}_i` with the mean :math:`\bar{\mathbf{k}}` over the
    lags, :math:`b_i` is a learned bias of each lag, and
    :math:`\mathbf{u}_i = \bar{\mathbf{f}}^{(t-i)} / \mathrm{rms}(\bar{\mathbf{f}}^{(t-i)})`. The
    moving-average ones read the residuals in the same way, with their own weights. With the
    constraint ``"softmax"`` the scores enter without the tanh.

    .. note::
        The paper's queries and keys have the width of the states: four times the parameters of a
        graph convolution, for a few numbers. Width :math:`D = 16` trains to the same accuracy.
        Three things are not in the paper. The division by the root mean square: scores have unit
        scale whatever the scale of the states. The subtracted mean: it would move all scores by the
        same amount, which the constraint undoes. The bias :math:`b_i`: without it, the
        moving-average scores of the first block are exactly zero, since the last residual is, and
        the division is 0/0. Keys start at zero and the bias favours the newest element, so that
        coefficients start as :class:`NaiveCoefficients` do, the same for every graph.

    Args:
        channels (int): Width :math:`F` of the sequence.
        ar_order (int): Number :math:`p` of autoregressive coefficients.
        ma_order (int): Number :math:`q` of moving-average coefficients.
        width (int, optional): Width :math:`D` of queries and keys. (default: :obj:`16`)
        constraint (str, optional): That of :class:`Coefficients`. (default: :obj:`"sum"`)
        poles (float, optional): If set, the bias of the autoregressive ones starts with the poles
            of :func:`coefficients_with_poles`. (default: :obj:`None`)

    Shapes:
        - **input:** means of states and residuals :math:`(B, L, F)`; without residuals, these are
          the forward differences of the states
        - **output:** coefficients :math:`(B, p)` and :math:`(B, q)`, newest first
    """

    is_selective = True

    def __init__(
        self,
        channels: int,
        ar_order: int,
        ma_order: int,
        width: int = 16,
        constraint: str = "sum",
        poles: float | Literal["wave"] | None = None,
    ) -> None:
        super().__init__()
        check_positive(channels=channels, ar_order=ar_order, ma_order=ma_order, width=width)
        self.channels, self.width = channels, width
        self.ar_order, self.ma_order = ar_order, ma_order
        self.constraint, self.poles = constraint, poles
        self._constrain = choose("constraint", constraint, CONSTRAINTS)
        # autoregressive, moving-average
        self.query_weight = Parameter(torch.empty(2, width, channels))
        self.query_bias = Parameter(torch.empty(2, width))
        self.key_weight = Parameter(torch.empty(2, width, channels))
        self.lag_bias = Parameter(torch.empty(2, max(ar_order, ma_order)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        # queries of unit scale; keys of zero, which they teach
        torch.nn.init.normal_(self.query_weight, std=1 / math.sqrt(self.channels))
        torch.nn.init.normal_(self.query_bias)
        torch.nn.init.zeros_(self.key_weight)
        starts = _initial(self.ar_order, self.ma_order, self.poles, self.constraint)
        with torch.no_grad():
            self.lag_bias.zero_()
            for bias, start in zip(self.lag_bias, starts, strict=True):
                if self.constraint != "none":
                    start = start * (math.tanh(_INITIAL_SCORE) / start.abs().max())
                # tanh must be able to produce it: at most 0.999 in absolute value
                bias[: start.numel()] = start.clamp(-0.999, 0.999).atanh() / PACE

    def forward(
        self, pooled_states: Tensor, pooled_residuals: Tensor | None = None
    ) -> ARMACoefficients:
        r"""Returns the coefficients of every graph."""
        self._check(pooled_states)
        if self._runs_on_device(pooled_states, pooled_residuals):
            weights = self.query_weight, self.query_bias, self.key_weight, self.lag_bias
            orders = self.ar_order, self.ma_order
            pair = apply(_SelectOnDevice, pooled_states, pooled_residuals, *weights, *orders)
            return ARMACoefficients(*pair)
        if pooled_residuals is None:
            pooled_residuals = forward_differences(pooled_states.transpose(0, 1)).transpose(0, 1)
        with torch.autocast(pooled_states.device.type, enabled=False):
            # [2, B, L, F], newest first
            pooled = torch.stack([pooled_states, pooled_residuals]).to(self.key_weight.dtype)
            unit = to_unit_scale(pooled.flip(2))
            query = torch.baddbmm(
                self.query_bias.unsqueeze(1), unit[:, :, 0], self.query_weight.mT
            )  # [2, B, D]
            # q·(W_k u) = (W_k^T q)·u: one product with the sequence, no keys in memory
            asked = (query @ self.key_weight).unsqueeze(-1)  # [2, B, F, 1]
            products = (unit[:, :, : self.lag_bias.size(1)] @ asked).squeeze(-1)
            bias = PACE * self.lag_bias.unsqueeze(1)
            if self.ar_order == self.ma_order:
                return ARMACoefficients(*self._coefficients(products, bias).unbind(0))
            return ARMACoefficients(
                *(
                    self._coefficients(products[side, :, :order], bias[side, :, :order])
                    for side, order in enumerate((self.ar_order, self.ma_order))
                )
            )

    def _coefficients(self, products: Tensor, bias: Tensor) -> Tensor:
        centred = products - products.mean(dim=-1, keepdim=True)
        scores = torch.add(bias, centred, alpha=1 / math.sqrt(self.width))
        return self._constrain(scores if self.constraint == "softmax" else scores.tanh())

    def _check(self, pooled: Tensor) -> None:
        order = self.lag_bias.size(1)
        if pooled.size(1) < order or pooled.size(2) != self.channels:
            raise ValueError(
                f"Expected a sequence of at least {order} elements and {self.channels} channels "
                f"(got {pooled.size(1)} and {pooled.size(2)})"
            )

    def _runs_on_device(self, *pooled: Tensor | None) -> bool:
        if self.constraint != "sum" or not handwritten_gradients_work():
            return False
        given = (t for t in (*pooled, *self.parameters()) if t is not None)
        fast = kernels.coefficient_kernels(*given)
        return fast is not None and self.channels <= fast.MAX_CHANNELS

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, {self.ar_order}, {self.ma_order}, "
            f"width={self.width}, constraint='{self.constraint}')"
        )


# Where the largest score of a fresh model lies.
_INITIAL_SCORE = 1.0
# Added to the mean square before the division.
UNIT_EPSILON = 1e-6


def to_unit_scale(x: Tensor) -> Tensor:
    r"""Divides vectors :math:`(*, F)` by their root mean square; zero stays zero."""
    return x * (x.square().mean(dim=-1, keepdim=True) + UNIT_EPSILON).rsqrt()


class _SelectOnDevice(torch.autograd.Function):
    r"""Both sets of selective coefficients in one launch forward and one backward."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        query_weight: Tensor,
        query_bias: Tensor,
        key_weight: Tensor,
        lag_bias: Tensor,
        ar_order: int,
        ma_order: int,
    ) -> tuple[Tensor, Tensor]:
        fast = kernels.coefficient_kernels(states)
        assert fast is not None
        weights = query_weight, query_bias, key_weight, lag_bias
        phi, theta, scores, vectors = fast.select(states, residuals, weights, ar_order, ma_order)
        ctx.save_for_backward(scores, vectors, states, residuals, query_weight, key_weight)
        ctx.fast = fast
        return phi, theta

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, phi_gradient: Tensor, theta_gradient: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        scores, vectors, _, residuals, query_weight, _ = saved
        gradients = phi_gradient.contiguous(), theta_gradient.contiguous()
        sequences, small = ctx.fast.select_backward(*gradients, *saved)
        width, channels = query_weight.shape[1:]
        newest, _, query = vectors.split([channels, channels, width], dim=-1)
        asked_gradient, query_gradient, _ = small.split([channels, width, scores.size(-1)], dim=-1)
        biases = small.sum(dim=1)
        pooled = sequences[0], sequences[1]
        if residuals is None:
            pooled = sequences[0] + sequences[1], None
        return (
            *pooled,
            query_gradient.mT @ newest,  # [2, D, B] x [2, B, F]
            biases[:, channels : channels + width],
            query.mT @ asked_gradient,
            biases[:, channels + width :],
            None,
            None,
        )


def normalize_sum(scores: Tensor) -> Tensor:
    r"""Divides scores by their sum, guarded where the sum is small beside their size.

    With :math:`s = \sum_i c_i`, :math:`a = \max(\sum_i |c_i|, 0.1)` over the last dimension of size
    :math:`p`, and :math:`m = \max(s^2, (a / 3)^2)`,

    .. math::
        \phi_i = \frac{s}{m} \, c_i + \left(1 - \frac{s^2}{m}\right) \frac{1}{p}.

    Where :math:`|s| \ge a / 3` this is the paper's :math:`c_i / s` exactly. Below, it passes
    continuously into the uniform coefficients :math:`1 / p`, so that it can neither explode nor
    jump between two signs: :math:`\sum_i |\phi_i| \le 3` and :math:`\sum_i \phi_i = 1` everywhere.

    Args:
        scores (Tensor): Raw scores :math:`c`.

    Shapes:
        - **input, output:** :math:`(*, p)`

    Example:
        >>> normalize_sum(torch.tensor([1.0, 3.0]))
        tensor([0.2500, 0.7500])
        >>> normalize_sum(torch.tensor([1.0, -1.0]))
        tensor([0.5000, 0.5000])
    """
    if scores.size(-1) == 1:
        # the rest would be a fifth of all operations of a small model, for a number known before
        return 1 + 0 * scores
    total = scores.sum(dim=-1, keepdim=True)
    size = scores.abs().sum(dim=-1, keepdim=True).clamp(min=SMALLEST_TOTAL)
    bounded = torch.maximum(total.square(), (GUARD * size).square())
    ratio = total / bounded
    return scores * ratio + (1 - total * ratio) / scores.size(-1)


def normalize_l1(scores: Tensor) -> Tensor:
    r"""Divides scores by the sum of their absolute values.

    The result satisfies :math:`\sum_i |\phi_i| \le 1`, the sufficient condition of the stability
    theorem, with equality wherever :math:`\sum_i |c_i| \ge 0.1`; below, the scores are divided by
    :math:`0.1`.

    Args:
        scores (Tensor): Raw scores :math:`c`.

    Shapes:
        - **input, output:** :math:`(*, p)`

    Example:
        >>> normalize_l1(torch.tensor([1.0, -3.0]))
        tensor([ 0.2500, -0.7500])
    """
    return scores / scores.abs().sum(dim=-1, keepdim=True).clamp(min=SMALLEST_TOTAL)


def normalize_softmax(scores: Tensor) -> Tensor:
    r"""Exponentiates scores and divides by their sum: positive coefficients that add up to one.

    Args:
        scores (Tensor): Raw scores :math:`c`.

    Shapes:
        - **input, output:** :math:`(*, p)`
    """
    return torch.softmax(scores, dim=-1)


def keep_scores(scores: Tensor) -> Tensor:
    return scores


CONSTRAINTS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": normalize_sum,
    "l1": normalize_l1,
    "softmax": normalize_softmax,
    "none": keep_scores,
}


def coefficients_with_poles(order: int, radius: float, constraint: str) -> Tensor:
    r"""Autoregressive coefficients with poles at a chosen distance from the origin.

    The poles are the roots of
    :math:`P(\lambda) = \lambda^p - \sum_i \phi_i \lambda^{p-i}`. The nearer they are to the unit
    circle, the slower the impulse response decays (the long-range theorem of the paper). What can
    be placed depends on the constraint on :math:`\phi`:

    - ``"none"``: all :math:`p` poles at radius :math:`\rho`, evenly spread,
      :math:`P(\lambda) = \lambda^p - \rho^p`.
    - ``"l1"`` (:math:`\sum_i |\phi_i| = 1`): the dominant pole at :math:`\rho`, real, through
      :math:`\phi_1 = 1 - b`, :math:`\phi_2 = -b` with :math:`b = \rho (1 - \rho) / (1 + \rho)`.
    - ``"sum"`` (:math:`\sum_i \phi_i = 1`): such coefficients always have one pole at 1; the other
      :math:`p - 1` are put at radius :math:`\rho`,
      :math:`P(\lambda) = (\lambda - 1)(\lambda^{p-1} + \rho^{p-1})`.

    Args:
        order (int): The order :math:`p`.
        radius (float): The radius :math:`\rho`, between 0.5 and 1.
        constraint (str): The constraint that will be put on the coefficients.

    Returns:
        Coefficients of shape :math:`(p)` in float64, newest first, which the constraint leaves
        as they are.

    Raises:
        ValueError: If the radius is out of range, or if the constraint leaves no freedom.
    """
    if not 0.5 <= radius <= 1:
        raise ValueError(f"Expected 'poles' to be between 0.5 and 1 (got {radius})")
    phi = torch.zeros(order, dtype=torch.float64)
    if constraint == "none":
        phi[-1] = radius**order
    elif constraint == "l1":
        if order == 1:
            raise _no_freedom(radius, constraint, "at order 1 the only coefficient is 1")
        b = radius * (1 - radius) / (1 + radius)
        phi[0] = 1 - b
        phi[1] = -b
    elif constraint == "sum":
        # (λ - 1)(λ^(p-1) + r) = λ^p - λ^(p-1) + r λ - r
        r = radius ** (order - 1)
        phi[0] = 1.0
        if order > 1:
            phi[order - 2] -= r
            phi[order - 1] += r
    else:
        raise _no_freedom(radius, constraint, "its coefficients always have the pole 1")
    return phi


def _no_freedom(radius: float, constraint: str, reason: str) -> ValueError:
    return ValueError(
        f"Expected a constraint that leaves room for 'poles' "
        f"(got poles={radius}, constraint='{constraint}': {reason})"
    )


def _initial(
    ar_order: int, ma_order: int, poles: float | Literal["wave"] | None, constraint: str
) -> tuple[Tensor, Tensor]:
    """What both sets of coefficients start as."""
    theta = _one_hot(ma_order)
    if poles is None:
        return _one_hot(ar_order), theta
    if poles != "wave":
        return coefficients_with_poles(ar_order, poles, constraint), theta
    if constraint != "none" or ar_order < 2:
        raise ValueError(
            f"Expected the constraint 'none' and an 'ar_order' of at least 2 for gain='wave' (got "
            f"constraint='{constraint}', ar_order={ar_order})"
        )
    phi = torch.zeros(ar_order, dtype=torch.float64)
    phi[:2] = torch.tensor([2.0, -1.0]) / WAVE_RETENTION
    return phi, torch.zeros_like(theta)


def _one_hot(order: int) -> Tensor:
    start = torch.zeros(order, dtype=torch.float64)
    start[0] = 1.0
    return start
