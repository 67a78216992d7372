"""Reading the given sequence: pooled for the coefficients, mixed for the recurrence.

Left to autograd, each of the two readings and the newest state would make a gradient as large as
the sequence, and add them up. Here the gradients are written by hand: the pooling hands the
sequence on to the mixing, so that its backward runs after that of the mixing, finds the gradient
there, and adds its own share in place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.activation import Activation
from torch_grama.nn.engine import kernels


class PooledReading(torch.autograd.Function):
    r"""``(sequence) -> (mean over nodes of the activated sequence, sequence)``."""

    @staticmethod
    def forward(
        ctx: Any, sequence: Tensor, batch: Tensor | None, num_graphs: int, act: Activation
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(sequence, batch)
        ctx.act = act
        ctx.set_materialize_grads(False)
        return kernels.pool(sequence, batch, num_graphs, act), sequence.view_as(sequence)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, pooled_gradient: Tensor | None, gradient: Tensor | None
    ) -> tuple[Tensor | None, None, None, None]:
        sequence, batch = ctx.saved_tensors
        if pooled_gradient is not None:
            if gradient is None:
                gradient = torch.zeros_like(sequence)
            kernels.pool_backward(gradient, pooled_gradient, sequence, batch, ctx.act)
        return gradient, None, None, None


class MixedReading(torch.autograd.Function):
    r"""``(states, residuals, weights of both) -> (sums over the sequence, newest state)``."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        state_weights: Tensor,
        residual_weights: Tensor | None,
        batch: Tensor | None,
        act: Activation,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(states, residuals, state_weights, residual_weights, batch)
        ctx.act = act
        ctx.set_materialize_grads(False)
        mixed = kernels.combine_both(state_weights, states, residual_weights, residuals, batch, act)
        return mixed, act(states[-1]).clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor | None, newest_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        states, residuals, state_weights, residual_weights, batch = ctx.saved_tensors
        needs_states, needs_residuals, needs_state_weights, needs_residual_weights, _, _ = (
            ctx.needs_input_grad
        )
        act: Activation = ctx.act
        grads: list[Tensor | None] = [None] * 6
        if gradient is not None:
            num_graphs = state_weights.size(0)
            if needs_state_weights:
                grads[2] = kernels.gram(gradient, states, batch, num_graphs, act)
            if needs_residual_weights:
                grads[3] = kernels.gram(gradient, residuals, batch, num_graphs, act)
            if needs_states:
                grads[0] = kernels.combine_backward(state_weights, gradient, states, batch, act)
            if needs_residuals:
                grads[1] = kernels.combine_backward(
                    residual_weights, gradient, residuals, batch, act
                )
        if newest_gradient is not None and needs_states:
            states_gradient = torch.zeros_like(states) if grads[0] is None else grads[0]
            states_gradient[-1] += kernels.activation_gradient(act, states[-1], newest_gradient)
            grads[0] = states_gradient
        return tuple(grads)
