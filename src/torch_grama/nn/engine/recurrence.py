"""One block's recurrence: the equation itself, and the engines that compute the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import LinearMap
from torch_grama.nn.engine.closed_form import power_weights, solve_recurrence, step_weights
from torch_grama.nn.engine.scans import Backbone, HornerScan, LinearScan, scan
from torch_grama.nn.engine.sequence import (
    Activation,
    Groups,
    NodeSequence,
    apply,
    graph_mean,
    handwritten_backward,
    handwritten_gradients_work,
)

ENGINES = {
    "auto": "the fastest that is exact for the backbone",
    "reference": "the equation, one lag at a time",
    "scan": "any backbone, one matrix-vector product per step",
    "linear": "linear backbones, forward and backward by hand",
}

# From means of states and residuals (None: forward differences of the states) to phi and theta.
Select = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


class RecurrenceResult(NamedTuple):
    r"""New states and residuals :math:`(R, N, F)`, oldest first, or the last state alone; and the
    coefficients :math:`(B, p)` and :math:`(B, q)`, newest first.
    """

    states: Tensor
    residuals: Tensor | None
    phi: Tensor
    theta: Tensor


@dataclass(frozen=True, eq=False)
class Recurrence:
    r"""How a recurrence is run, around a callable from states to residuals or a :class:`LinearMap`.

    With :obj:`pools` the coefficients are made from means of the sequence. With :obj:`overwrites`
    incoming gradients may be overwritten, because they come from another engine and nobody else
    sees them. The backbone is taken times the :obj:`gain`.
    """

    backbone: Backbone
    num_recurrences: int
    groups: Groups
    gain: Tensor | None = None
    pools: bool = False
    engine: str = "auto"
    last_only: bool = False
    overwrites: bool = False

    def run(self, sequence: NodeSequence, select: Select) -> RecurrenceResult:
        r"""Reads a sequence, lets :obj:`select` make the coefficients, and runs all steps."""
        linear = self._linear_map()
        if self.engine == "reference" or not handwritten_gradients_work():
            return self._run_plain(sequence, select)
        steps = self.num_recurrences
        if linear is not None and self.last_only:
            reading = Reading(sequence, self.groups, self.pools, steps + 1, False)
            phi, theta = select(reading.pooled_states, reading.pooled_residuals)
            state = self._run_horner(reading, phi, theta, linear)
            return RecurrenceResult(state.unsqueeze(0), None, phi, theta)
        reading = Reading(sequence, self.groups, self.pools, steps)
        phi, theta = select(reading.pooled_states, reading.pooled_residuals)
        states, residuals = self._run_steps(reading, phi, theta, linear)
        return RecurrenceResult(states, residuals, phi, theta)

    def _linear_map(self) -> LinearMap | None:
        if not isinstance(self.backbone, LinearMap):
            if self.engine == "linear":
                raise ValueError(
                    "Expected a linear backbone for engine='linear' (got one that is not known to "
                    "be linear); use engine='scan', or give the module a linear_map method"
                )
            return None
        # the gradient of the adjacency itself is left to autograd
        if self.engine not in ("auto", "linear") or self.backbone.adjacency.value.requires_grad:
            return None
        return self.backbone.scale(self.gain)

    def _run_steps(
        self, reading: Reading, phi: Tensor, theta: Tensor, linear: LinearMap | None
    ) -> tuple[Tensor, Tensor | None]:
        state_weights, residual_weights, response = step_weights(
            phi, theta, reading.seq_len, self.num_recurrences, reading.reads_differences
        )
        mixed = reading.mix(state_weights, residual_weights)
        response = response.to(torch.promote_types(mixed.dtype, torch.float32))
        assert reading.newest is not None
        if linear is None:
            # the gain once on the response and once on all residuals, in place of every step
            if self.gain is not None:
                response = self.gain * response
            states, residuals = scan(
                mixed, reading.newest, response, self.backbone, self.groups, self.last_only
            )
            if residuals is not None and self.gain is not None:
                residuals = self.gain * residuals
            return states, residuals
        if linear.source is not None:
            # it is in every residual, and each adds its response to the states that follow
            mixed = self._add_source(mixed, response.cumsum(1), linear.source)
        weights = linear.weight, linear.root_weight, linear.bias
        rest = linear.adjacency, self.groups, self.overwrites
        states, residuals = apply(LinearScan, mixed, reading.newest, response, *weights, *rest)
        if linear.source is not None:
            residuals = residuals + linear.source.to(residuals.dtype)
        return states, residuals

    def _run_horner(
        self, reading: Reading, phi: Tensor, theta: Tensor, linear: LinearMap
    ) -> Tensor:
        state_weights, residual_weights, bias_weights = power_weights(
            phi, theta, reading.seq_len, self.num_recurrences, reading.reads_differences
        )
        terms = reading.mix(state_weights, residual_weights)
        if linear.source is not None:  # like a bias, it is not in the highest power
            terms = self._add_source(terms, pad(bias_weights, (0, 1)), linear.source)
        offset = None
        if linear.bias is not None:
            offset = bias_weights.to(linear.bias.dtype)[..., None] * linear.bias  # [B, R, F]
        weights = linear.weight, linear.root_weight
        out: Tensor = apply(HornerScan, terms, offset, *weights, linear.adjacency, self.groups)
        return out

    def _add_source(self, sums: Tensor, weights: Tensor, source: Tensor) -> Tensor:
        # [B, R] -> [R, 1 or N, 1]
        batch = self.groups.batch
        weights = (weights if batch is None else weights[batch]).t().unsqueeze(-1)
        return sums.addcmul(weights.to(sums.dtype), source.to(sums.dtype))

    def _run_plain(self, sequence: NodeSequence, select: Select) -> RecurrenceResult:
        batch = self.groups.batch
        states, residuals = sequence.materialize()
        pooled = [
            graph_mean(part, batch, self.groups.num_graphs) if self.pools else part.new_empty(0)
            for part in (states, residuals)
        ]
        phi, theta = select(pooled[0], pooled[1])
        run = arma_recurrence_reference if self.engine == "reference" else _run_closed_form
        new_states, new_residuals = run(
            states, residuals, phi, theta, self._scaled, self.num_recurrences, batch
        )
        if self.last_only:
            return RecurrenceResult(new_states[-1:], None, phi, theta)
        return RecurrenceResult(new_states, new_residuals, phi, theta)

    def _scaled(self, x: Tensor) -> Tensor:
        out = self.backbone(x)
        return out if self.gain is None else self.gain * out


def arma_recurrence_reference(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Backbone,
    num_recurrences: int,
    batch: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The ARMA recurrence of GRAMA, written straight from its equation.

    .. math::
        \mathbf{f}^{(t)} = \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    for :math:`t = L, \ldots, L + R - 1`. See :func:`arma_recurrence` for arguments and shapes; the
    two are equal in value and gradient.
    """
    f = [states[k] for k in range(states.size(0))]
    d = [residuals[k] for k in range(residuals.size(0))]
    new_states, new_residuals = [], []
    for _ in range(num_recurrences):
        newest_residual = backbone(f[-1])
        newest_state = newest_residual
        for i in range(1, phi.size(-1) + 1):
            newest_state = newest_state + _per_node(phi[..., i - 1], batch) * f[-i]
        for j in range(1, theta.size(-1) + 1):
            newest_state = newest_state + _per_node(theta[..., j - 1], batch) * d[-j]
        f.append(newest_state)
        d.append(newest_residual)
        new_states.append(newest_state)
        new_residuals.append(newest_residual)
    return torch.stack(new_states), torch.stack(new_residuals)


def _per_node(coefficient: Tensor, batch: Tensor | None) -> Tensor:
    # [] or [1] for all nodes; [B] -> [N, 1] through the batch vector
    if coefficient.dim() == 0 or batch is None:
        return coefficient
    return coefficient[batch].unsqueeze(-1)


def _run_closed_form(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Backbone,
    num_recurrences: int,
    batch: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r"""The same as :func:`scan`, left to autograd: for compilers, exporters and function
    transforms, which cannot look into hand-written gradients.
    """
    transition = solve_recurrence(phi, theta, states.size(0), num_recurrences)
    weights = torch.cat([transition.from_states, transition.from_residuals], dim=-1)
    weights = weights.to(states.dtype)
    given = torch.cat([states, residuals])
    if batch is None:
        mixed = torch.einsum("rl,lnf->rnf", weights[0], given)
    else:
        mixed = torch.einsum("nrl,lnf->rnf", weights[batch], given)
    response = transition.response if batch is None else transition.response[batch]
    response = response.to(mixed.dtype)  # [1 or N, R]
    state = states[-1]
    new_states: list[Tensor] = []
    new_residuals: list[Tensor] = []
    for step in range(num_recurrences):
        new_residuals.append(backbone(state))
        state = mixed[step]
        for k, residual in enumerate(new_residuals):
            state = state + response[:, step - k, None] * residual
        new_states.append(state)
    return torch.stack(new_states), torch.stack(new_residuals)


class Reading:
    r"""A sequence that is read once for its means and once for weighted sums.

    Left to autograd, each of the two readings and the newest state would make a gradient as large
    as the sequence, and add them up. Here the gradient of the sums travels on, untouched, as that
    of a token; the gradients of the coefficients follow from it; and only then, with everything
    known, is the gradient of the sequence written, in one pass.
    """

    def __init__(
        self,
        sequence: NodeSequence,
        groups: Groups,
        pools: bool,
        num_sums: int,
        reads_newest: bool = True,
    ) -> None:
        self._sequence = sequence
        self._groups = groups
        self._weights: list[Tensor | None] = [None, None]
        states, residuals, act = sequence.states, sequence.residuals, sequence.act
        self.seq_len = states.size(0)
        self.reads_differences = residuals is None
        self.pooled_states: Tensor
        self.pooled_residuals: Tensor | None
        self.newest: Tensor | None
        self.pooled_states, pooled_residuals, self.newest, self._token = apply(
            _Enter, states, residuals, groups, pools, num_sums, reads_newest, act, self._weights
        )
        self.pooled_residuals = None if residuals is None else pooled_residuals

    def mix(self, state_weights: Tensor, residual_weights: Tensor | None) -> Tensor:
        r"""Returns weighted sums over the sequence :math:`(R, N, F)`; called once."""
        states, residuals = self._sequence.states, self._sequence.residuals
        # sums in the type of the states, and never below float32
        dtype = torch.promote_types(states.dtype, torch.float32)
        weights = [None if w is None else w.to(dtype) for w in (state_weights, residual_weights)]
        # values alone, for the gradient of the sequence
        self._weights[:] = (None if w is None else w.detach() for w in weights)
        given = (None if part is None else part.detach() for part in (states, residuals))
        out: Tensor = apply(_Mix, self._token, *given, *weights, self._groups, self._sequence.act)
        return out


class _Enter(torch.autograd.Function):
    r"""``(states, residuals) -> (means of both, newest state, token)``; backward runs last."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        groups: Groups,
        pools: bool,
        num_sums: int,
        reads_newest: bool,
        act: Activation,
        weights: list[Tensor | None],
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        ctx.save_for_backward(states, residuals)
        ctx.groups, ctx.act, ctx.weights = groups, act, weights
        ctx.set_materialize_grads(False)
        pooled_states = pooled_residuals = states.new_empty(0, 0, 0)
        if pools:
            pooled_states = kernels.pool(states, groups, act)
        if pools and residuals is not None:
            pooled_residuals = kernels.pool(residuals, groups, act)
        newest = act(states[-1]) if reads_newest else None
        if newest is not None and newest.data_ptr() == states[-1].data_ptr():
            # a tensor of its own, also where the activation returns its input
            newest = newest.clone()
        # shaped like the sums, whose gradient will travel through it, without their memory
        token = states.new_zeros(()).expand(num_sums, *states.shape[1:])
        return pooled_states, pooled_residuals, newest, token

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any,
        states_share: Tensor | None,
        residuals_share: Tensor | None,
        newest_gradient: Tensor | None,
        sums_gradient: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        states, residuals = ctx.saved_tensors
        gradients: list[Tensor | None] = []
        for part, weights, share, newest, needed in (
            (states, ctx.weights[0], states_share, newest_gradient, ctx.needs_input_grad[0]),
            (residuals, ctx.weights[1], residuals_share, None, ctx.needs_input_grad[1]),
        ):
            if part is None or not needed:
                gradients.append(None)
                continue
            gradients.append(
                kernels.sequence_gradient(
                    weights, sums_gradient, share, newest, ctx.groups, part, ctx.act
                )
            )
        return *gradients, None, None, None, None, None, None


class _Mix(torch.autograd.Function):
    r"""``(token, weights) -> sums``; hands its gradient to :class:`_Enter` through the token."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        states: Tensor,
        residuals: Tensor | None,
        state_weights: Tensor,
        residual_weights: Tensor | None,
        groups: Groups,
        act: Activation,
    ) -> Tensor:
        ctx.save_for_backward(states, residuals)
        ctx.groups, ctx.act = groups, act
        return kernels.combine(state_weights, states, residual_weights, residuals, groups, act)

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, residuals = ctx.saved_tensors
        gradient = gradient.contiguous()
        weight_gradients = [
            kernels.gram(gradient, part, ctx.groups, ctx.act) if needed else None
            for part, needed in zip((states, residuals), ctx.needs_input_grad[3:5], strict=True)
        ]
        return gradient, None, None, *weight_gradients, None, None
