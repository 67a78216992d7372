"""One block's recurrence: the equation itself, and the engines that compute the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import LinearMap
from torch_grama.nn.engine.closed_form import (
    power_weights,
    solve_recurrence,
    step_weights,
    sum_diagonals,
)
from torch_grama.nn.engine.linear import HornerScan, LinearScan
from torch_grama.nn.engine.reading import Reading
from torch_grama.nn.engine.sequence import (
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

Backbone = Callable[[Tensor], Tensor]
# From means of states and residuals (None: forward differences of the states) to phi and theta.
Select = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


class RecurrenceResult(NamedTuple):
    r"""What a recurrence makes.

    Attributes:
        states: The new states :math:`(R, N, F)`, oldest first, or the last alone :math:`(1, N, F)`.
        residuals: The new residuals :math:`(R, N, F)`, unless the last state alone was asked for.
        phi: The autoregressive coefficients :math:`(B, p)`, newest first.
        theta: The moving-average coefficients :math:`(B, q)`, newest first.
    """

    states: Tensor
    residuals: Tensor | None
    phi: Tensor
    theta: Tensor


@dataclass(frozen=True, eq=False)
class Recurrence:
    r"""How a recurrence is run.

    Attributes:
        backbone: Callable from states to residuals; a :class:`LinearMap` for a linear one.
        num_recurrences: Number :math:`R` of new elements.
        groups: Which nodes share coefficients.
        pools: Whether the coefficients are made from means of the sequence.
        engine: One of :obj:`ENGINES`.
        last_only: Whether the last state is all that is wanted.
        overwrites: Whether incoming gradients may be overwritten, because they come from another
            engine and nobody else sees them.
    """

    backbone: Backbone
    num_recurrences: int
    groups: Groups
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
        if linear is not None and self.last_only and _prefers_horner(steps, linear):
            reading = Reading(sequence, self.groups, self.pools, steps + 1)
            phi, theta = select(reading.pooled_states, reading.pooled_residuals)
            state = self._run_horner(reading, phi, theta, linear)
            return RecurrenceResult(state.unsqueeze(0), None, phi, theta)
        reading = Reading(sequence, self.groups, self.pools, steps)
        phi, theta = select(reading.pooled_states, reading.pooled_residuals)
        states, residuals = self._run_steps(reading, phi, theta, linear)
        if self.last_only:
            return RecurrenceResult(states[-1:], None, phi, theta)
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
        return self.backbone

    def _run_steps(
        self, reading: Reading, phi: Tensor, theta: Tensor, linear: LinearMap | None
    ) -> tuple[Tensor, Tensor]:
        state_weights, residual_weights, response = step_weights(
            phi, theta, reading.seq_len, self.num_recurrences, reading.reads_differences
        )
        mixed = reading.mix(state_weights, residual_weights)
        response = response.to(torch.promote_types(mixed.dtype, torch.float32))
        if linear is None:
            return scan(mixed, reading.newest, response, self.backbone, self.groups)
        out: tuple[Tensor, Tensor] = apply(
            LinearScan,
            mixed,
            reading.newest,
            response,
            linear.weight,
            linear.root_weight,
            linear.bias,
            linear.adjacency,
            self.groups,
            self.overwrites,
        )
        return out

    def _run_horner(
        self, reading: Reading, phi: Tensor, theta: Tensor, linear: LinearMap
    ) -> Tensor:
        state_weights, residual_weights, bias_weights = power_weights(
            phi, theta, reading.seq_len, self.num_recurrences, reading.reads_differences
        )
        terms = reading.mix(state_weights, residual_weights)
        offset = None
        if linear.bias is not None:
            offset = bias_weights.to(linear.bias.dtype)[..., None] * linear.bias  # [B, R, F]
        out: Tensor = apply(
            HornerScan,
            terms,
            offset,
            linear.weight,
            linear.root_weight,
            linear.adjacency,
            self.groups,
        )
        return out

    def _run_plain(self, sequence: NodeSequence, select: Select) -> RecurrenceResult:
        batch = self.groups.batch
        states, residuals = sequence.materialize()
        pooled = [
            graph_mean(part, batch, self.groups.num_graphs) if self.pools else part.new_empty(0)
            for part in (states, residuals)
        ]
        phi, theta = select(pooled[0], pooled[1])
        run = _run_reference if self.engine == "reference" else _run_closed_form
        new_states, new_residuals = run(
            states, residuals, phi, theta, self.backbone, self.num_recurrences, batch
        )
        if self.last_only:
            return RecurrenceResult(new_states[-1:], None, phi, theta)
        return RecurrenceResult(new_states, new_residuals, phi, theta)


def _prefers_horner(num_recurrences: int, backbone: LinearMap) -> bool:
    # It saves the sums over the history, which are short for few recurrences; on a device with
    # kernels for the coefficients it saves launches too.
    return num_recurrences >= (3 if kernels.runs_on_device(backbone.weight) else 8)


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


_run_reference = arma_recurrence_reference


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


def scan(
    mixed: Tensor,
    newest: Tensor,
    response: Tensor,
    backbone: Backbone,
    groups: Groups,
) -> tuple[Tensor, Tensor]:
    r"""Runs :math:`\mathbf{f}_r = \mathbf{u}_r + \sum_{k \le r} h_{r-k} \boldsymbol{\delta}_k`,
    :math:`\boldsymbol{\delta}_r = \mathrm{GNN}(\mathbf{f}_{r-1})`.

    All steps share one buffer of residuals and, on the way back, one buffer of state gradients:
    the adjoint is :math:`\bar{\boldsymbol{\delta}}_r \mathrel{+}= \sum_{s \ge r} h_{s-r}
    \bar{\mathbf{f}}_s`, one matrix-vector product a step as well. The buffer of gradients travels
    from step to step as the gradient of a token, which also keeps the steps in order.

    Args:
        mixed (Tensor): The part :math:`\mathbf{u}` of the given sequence, :math:`(R, N, F)`.
        newest (Tensor): The newest given state :math:`(N, F)`.
        response (Tensor): The impulse response :math:`h`, :math:`(B, R)`.
        backbone (callable): Maps states :math:`(N, F)` to residuals :math:`(N, F)`.
        groups (Groups): Which nodes share coefficients.

    Returns:
        The new states and the new residuals, :math:`(R, N, F)` each.
    """
    buffers = _Buffers(torch.empty_like(mixed), torch.empty_like(mixed), response, groups)
    token = apply(_Begin, mixed, response, buffers)
    state = newest
    states, residuals = [], []
    for step in range(mixed.size(0)):
        residual = backbone(state)
        state, token = apply(_Step, residual, token, mixed.detach()[step], buffers, step)
        states.append(state)
        residuals.append(residual)
    stacked: tuple[Tensor, Tensor] = apply(_Finish, buffers, *states, *residuals)
    buffers.release()
    return stacked


@dataclass
class _Buffers:
    r"""What the steps share. On the way back only :class:`_Finish` brings the residuals, as a saved
    tensor like any other, so that a checkpoint can drop and recompute them.
    """

    states: Tensor
    residuals: Tensor
    response: Tensor
    groups: Groups

    def release(self) -> None:
        self.states = self.residuals = self.response.new_empty(0)


class _Begin(torch.autograd.Function):
    r"""Starts the chain of tokens; on the way back, receives the complete state gradients."""

    @staticmethod
    def forward(ctx: Any, mixed: Tensor, response: Tensor, buffers: _Buffers) -> Tensor:
        ctx.buffers = buffers
        # shaped like the buffer of gradients that will travel back, without its memory
        return mixed.new_zeros(()).expand_as(mixed)

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        buffers: _Buffers = ctx.buffers
        response_gradient = None
        if ctx.needs_input_grad[1]:
            products = kernels.gram(gradient, buffers.residuals, buffers.groups)
            response_gradient = sum_diagonals(products).to(buffers.response.dtype)
        buffers.release()
        return gradient, response_gradient, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, token: Tensor, base: Tensor, buffers: _Buffers, step: int
    ) -> tuple[Tensor, Tensor]:
        ctx.buffers, ctx.step = buffers, step
        ctx.num_steps = buffers.states.size(0)
        ctx.set_materialize_grads(False)
        buffers.residuals[step] = residual
        kernels.add_combination(
            buffers.states[step],
            base,
            buffers.response[:, : step + 1].flip(-1),
            buffers.residuals[: step + 1],
            buffers.groups,
        )
        # .data: shares the memory, and is no view that autograd would have to follow
        return buffers.states[step].data, token.view_as(token)

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any, gradient: Tensor | None, carried: Tensor | None
    ) -> tuple[Tensor, Tensor, None, None, None]:
        buffers: _Buffers = ctx.buffers
        step: int = ctx.step
        if carried is None:
            carried = torch.zeros_like(buffers.residuals)
        if gradient is not None:
            carried[step] = gradient
        residual_gradient = torch.empty_like(carried[step])
        kernels.add_combination(
            residual_gradient,
            None,
            buffers.response[:, : ctx.num_steps - step],
            carried[step:],
            buffers.groups,
        )
        return residual_gradient, carried, None, None, None


class _Finish(torch.autograd.Function):
    r"""Hands out the buffers as they are, in place of a stack of their parts."""

    @staticmethod
    def forward(ctx: Any, buffers: _Buffers, *parts: Tensor) -> tuple[Tensor, Tensor]:
        ctx.buffers, ctx.num_steps = buffers, len(parts) // 2
        ctx.save_for_backward(buffers.residuals)
        ctx.set_materialize_grads(False)
        return buffers.states.data, buffers.residuals.data

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any, states_gradient: Tensor | None, residuals_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        (ctx.buffers.residuals,) = ctx.saved_tensors
        nothing = (None,) * ctx.num_steps
        return (
            None,
            *(nothing if states_gradient is None else states_gradient.unbind(0)),
            *(nothing if residuals_gradient is None else residuals_gradient.unbind(0)),
        )
