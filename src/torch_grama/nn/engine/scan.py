"""The scan engine: any backbone, one matrix-vector product a step, exact gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.handwritten import apply
from torch_grama.nn.engine.toeplitz import sum_diagonals


def scan(
    mixed: Tensor,
    newest: Tensor,
    response: Tensor,
    backbone: Callable[[Tensor], Tensor],
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


def scan_plain(
    mixed: Tensor,
    newest: Tensor,
    response: Tensor,
    backbone: Callable[[Tensor], Tensor],
    batch: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r"""The same as :func:`scan`, left to autograd: for compilers, exporters and function
    transforms, which cannot look into hand-written gradients.
    """
    weights = response if batch is None else response[batch]  # [1 or N, R]
    weights = weights.to(mixed.dtype)
    state = newest
    states: list[Tensor] = []
    residuals: list[Tensor] = []
    for step in range(mixed.size(0)):
        residuals.append(backbone(state))
        state = mixed[step]
        for k, residual in enumerate(residuals):
            state = state + weights[:, step - k, None] * residual
        states.append(state)
    return torch.stack(states), torch.stack(residuals)


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
    @once_differentiable
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
    @once_differentiable
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
    @once_differentiable
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
