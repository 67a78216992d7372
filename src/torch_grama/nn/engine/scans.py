r"""The steps of a block, forward and backward by hand.

:func:`scan` runs any backbone, with one matrix-vector product per step; :class:`LinearScan` runs
backbones of the form :math:`\mathbf{A} \mathbf{f} \mathbf{W} + \mathbf{f}
\mathbf{W}_{\mathrm{root}} + \mathbf{b}`, and :class:`HornerScan` these for the last state alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.closed_form import sum_diagonals
from torch_grama.nn.engine.sequence import Groups, apply, handwritten_backward, identity

Backbone = Callable[[Tensor], Tensor]

# Steps that share one product of the weights' gradient: fewer launches, a little more memory.
_STEPS_AT_ONCE = 4


class LinearScan(torch.autograd.Function):
    r"""All steps of a block with a linear backbone, as :func:`scan` computes them.

    The states take the place of ``mixed``; with ``overwrites``, gradients that of incoming ones.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        newest: Tensor,
        response: Tensor,
        weight: Tensor,
        root_weight: Tensor | None,
        bias: Tensor | None,
        adjacency: Adjacency,
        groups: Groups,
        overwrites: bool,
    ) -> tuple[Tensor, Tensor]:
        states, residuals = mixed, kernels.new_empty(mixed, *mixed.shape)
        ctx.mark_dirty(mixed)
        kernels.linear_steps(
            states, residuals, response, adjacency.csr, newest, weight, root_weight, bias, groups
        )
        ctx.save_for_backward(states, residuals, newest, response, weight, root_weight, bias)
        ctx.adjacency, ctx.groups, ctx.overwrites = adjacency, groups, overwrites
        ctx.set_materialize_grads(False)
        return states, residuals

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any, states_gradient: Tensor | None, residuals_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        states, residuals, newest, response, weight, root_weight, bias = ctx.saved_tensors
        adjacency: Adjacency = ctx.adjacency
        groups: Groups = ctx.groups
        if states_gradient is None:
            states_gradient = torch.zeros_like(states)
        elif not (ctx.overwrites and states_gradient.is_contiguous()):
            states_gradient = states_gradient.clone(memory_format=torch.contiguous_format)
        sums: list[Tensor] = []
        accumulate = _WeightGradients(weight, root_weight, adjacency, states)
        # asked once for all steps
        fast = kernels.triton_for(identity, states_gradient, residuals_gradient) or kernels
        for step in reversed(range(states.size(0))):
            # gradient of residual `step`: its own, plus what all states from here on pass back
            own = None if residuals_gradient is None else residuals_gradient[step]
            if ctx.overwrites and own is not None and own.is_contiguous():
                gradient = own
            else:
                gradient = torch.empty_like(states[step])
            fast.add_combination(
                gradient, own, response[:, : states.size(0) - step], states_gradient[step:], groups
            )
            if bias is not None:
                sums.append(kernels.pool(gradient.unsqueeze(0), Groups(), mean=False))
            if step == 0:
                passed = accumulate.pass_back_from(gradient, newest)
                newest_gradient = accumulate.state_gradient(passed, gradient)
            else:
                passed = accumulate.pass_back(gradient, step - 1)
                accumulate.add_state_gradient(states_gradient[step - 1], passed, gradient)
        response_gradient = None
        if ctx.needs_input_grad[2]:
            products = kernels.gram(states_gradient, residuals, groups)
            response_gradient = sum_diagonals(products).to(response.dtype)
        return (
            states_gradient,
            newest_gradient,
            response_gradient,
            *accumulate.results(),
            None if bias is None else torch.cat(sums).sum(dim=(0, 1)).to(bias.dtype),
            None,
            None,
            None,
        )


class HornerScan(torch.autograd.Function):
    r"""The last state of a block with a linear backbone, by Horner's rule.

    ``(terms, offset, weight, root_weight) -> state`` with
    :math:`\mathbf{y}_m = \mathbf{T} \mathbf{y}_{m+1} + \mathbf{c}_m + \mathbf{o}_m` for
    :math:`m = R - 1, \ldots, 0`, starting from :math:`\mathbf{c}_R`. The partial results take the
    place of the terms :math:`\mathbf{c}`, ``[R + 1, N, F]``; the offsets :math:`\mathbf{o}`,
    ``[B, R, F]``, carry the bias.
    """

    @staticmethod
    def forward(
        ctx: Any,
        terms: Tensor,
        offset: Tensor | None,
        weight: Tensor,
        root_weight: Tensor | None,
        adjacency: Adjacency,
        groups: Groups,
    ) -> Tensor:
        kernels.horner_steps(terms, adjacency.csr, weight, root_weight, offset, groups)
        ctx.save_for_backward(terms, weight, root_weight)
        ctx.adjacency, ctx.groups = adjacency, groups
        # .data: shares the memory, which the gradient does not read
        return terms[0].data

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        partial, weight, root_weight = ctx.saved_tensors
        adjacency: Adjacency = ctx.adjacency
        gradients = kernels.new_empty(partial, *partial.shape)
        gradients[0] = gradient
        accumulate = _WeightGradients(weight, root_weight, adjacency, partial)
        for level in range(partial.size(0) - 1):
            passed = accumulate.pass_back(gradients[level], level + 1)
            accumulate.state_gradient(passed, gradients[level], out=gradients[level + 1])
        offset_gradient = None
        if ctx.needs_input_grad[1]:
            offset_gradient = kernels.pool(gradients[:-1], ctx.groups, mean=False)
        weight_gradient, root_gradient = accumulate.results()
        return gradients, offset_gradient, weight_gradient, root_gradient, None, None


class _WeightGradients:
    r"""Passes gradients back through a linear backbone, step by step, and adds up those of its
    weights in float32 or better.
    """

    def __init__(
        self, weight: Tensor, root_weight: Tensor | None, adjacency: Adjacency, states: Tensor
    ) -> None:
        self._weight_back = weight.t().to(states.dtype)
        self._root_back = None if root_weight is None else root_weight.t().to(states.dtype)
        self._weight = torch.zeros_like(weight)
        self._root = None if root_weight is None else torch.zeros_like(root_weight)
        self._matrix = adjacency.transposed
        self._states = states
        self._fast = kernels.triton_for(identity, states)
        self._waiting: range | None = None
        self._passed: Tensor | None = None
        if self._fast is not None:
            self._passed = states.new_empty(_STEPS_AT_ONCE, *states.shape[1:])

    def pass_back(self, gradient: Tensor, index: int) -> Tensor:
        r"""Takes the gradient of the step that started from state number :obj:`index`; returns it
        sent back along the edges. Neighbouring steps must follow each other.
        """
        if self._passed is None:
            return self.pass_back_from(gradient, self._states[index])
        assert self._fast is not None
        chunk, slot = divmod(index, _STEPS_AT_ONCE)
        if self._waiting is not None and self._waiting.start // _STEPS_AT_ONCE != chunk:
            self._flush()
        waiting = self._waiting or range(index, index + 1)
        self._waiting = range(min(waiting.start, index), max(waiting.stop, index + 1))
        passed = self._passed[slot]
        self._fast.sparse_product(self._matrix, gradient, passed)
        if self._root is not None:
            kernels.add_product(self._root, self._states[index], gradient)
        return passed

    def pass_back_from(self, gradient: Tensor, state: Tensor) -> Tensor:
        passed = kernels.sparse_product(self._matrix, gradient)
        kernels.add_product(self._weight, state, passed)
        if self._root is not None:
            kernels.add_product(self._root, state, gradient)
        return passed

    def _flush(self) -> None:
        if self._waiting is None or self._passed is None:
            return
        first, last = self._waiting.start, self._waiting.stop
        slot = first % _STEPS_AT_ONCE
        passed = self._passed[slot : slot + last - first]
        kernels.add_product(
            self._weight, self._states[first:last].flatten(0, 1), passed.flatten(0, 1)
        )
        self._waiting = None

    def state_gradient(self, passed: Tensor, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        out = torch.mm(passed, self._weight_back, out=out)
        if self._root_back is not None:
            out.addmm_(gradient, self._root_back)
        return out

    def add_state_gradient(self, out: Tensor, passed: Tensor, gradient: Tensor) -> None:
        out.addmm_(passed, self._weight_back)
        if self._root_back is not None:
            out.addmm_(gradient, self._root_back)

    def results(self) -> tuple[Tensor, Tensor | None]:
        self._flush()
        return self._weight, self._root


def scan(
    mixed: Tensor,
    newest: Tensor,
    response: Tensor,
    backbone: Backbone,
    groups: Groups,
    last_only: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Runs :math:`\mathbf{f}_r = \mathbf{u}_r + \sum_{k \le r} h_{r-k} \boldsymbol{\delta}_k`,
    :math:`\boldsymbol{\delta}_r = \mathrm{GNN}(\mathbf{f}_{r-1})`; ``mixed`` is :math:`\mathbf{u}`.
    Returns all states and residuals, or the last state alone.

    All steps share one buffer of residuals and, on the way back, one buffer of state gradients:
    the adjoint is :math:`\bar{\boldsymbol{\delta}}_r \mathrel{+}= \sum_{s \ge r} h_{s-r}
    \bar{\mathbf{f}}_s`, one matrix-vector product a step as well. The buffer of gradients travels
    from step to step as the gradient of a token, which also keeps the steps in order.
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
    parts = [state] if last_only else [*states, *residuals]
    out: tuple[Tensor, Tensor | None] = apply(_Finish, buffers, last_only, *parts)
    buffers.release()
    return out


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
        ctx.set_materialize_grads(False)
        out, response, past = buffers.states[step], buffers.response, buffers.residuals
        kernels.respond(out, base, response, past, step, residual, buffers.groups)
        # .data: shares the memory, and is no view that autograd would have to follow
        return out.data, token.view_as(token)

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any, gradient: Tensor | None, carried: Tensor | None
    ) -> tuple[Tensor, Tensor, None, None, None]:
        buffers: _Buffers = ctx.buffers
        step: int = ctx.step
        if carried is None:
            carried = torch.empty_like(buffers.residuals)
            carried[step + 1 :] = 0
        residual_gradient = torch.empty_like(carried[step])
        if gradient is None:
            gradient = torch.zeros_like(residual_gradient)
        groups, response = buffers.groups, buffers.response
        kernels.respond(
            residual_gradient, None, response, carried, step, gradient, groups, backwards=True
        )
        return residual_gradient, carried, None, None, None


class _Finish(torch.autograd.Function):
    r"""Hands out the buffers as they are, in place of a stack of their parts."""

    @staticmethod
    def forward(
        ctx: Any, buffers: _Buffers, last_only: bool, *parts: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        ctx.buffers, ctx.num_parts = buffers, len(parts)
        ctx.save_for_backward(buffers.residuals)
        ctx.set_materialize_grads(False)
        if last_only:
            return buffers.states[-1:].data, None
        return buffers.states.data, buffers.residuals.data

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any, states_gradient: Tensor | None, residuals_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        (ctx.buffers.residuals,) = ctx.saved_tensors
        num_steps = (ctx.num_parts + 1) // 2
        nothing = (None,) * num_steps
        parts = (
            *(nothing if states_gradient is None else states_gradient.unbind(0)),
            *(nothing if residuals_gradient is None else residuals_gradient.unbind(0)),
        )
        return None, None, *parts[: ctx.num_parts]
