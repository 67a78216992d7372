"""The closed form of the recurrence as weights of the given sequence, on whatever device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.handwritten import apply
from torch_grama.nn.engine.horner import last_state_weights
from torch_grama.nn.engine.transition import SolvedRecurrence, Transition, fold_differences

# Weights of the given states and residuals (None: differences), and a row for each graph.
Weights = tuple[Tensor, Tensor | None, Tensor]


def step_weights(
    phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int, from_differences: bool
) -> Weights:
    r"""Returns what the steps need.

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(B, p)`, newest first.
        theta (Tensor): Moving-average coefficients :math:`(B, q)`, newest first.
        seq_len (int): Length :math:`L` of the given sequence.
        num_recurrences (int): Number of new elements :math:`R`.
        from_differences (bool): Whether the residuals are the forward differences of the states.

    Returns:
        Weights of the states :math:`(B, R, L)` and of the residuals :math:`(B, R, L)`
        (:obj:`None` if they are differences), and the impulse response :math:`(B, R)`.
    """
    if _runs_on_device(phi, theta, seq_len, num_recurrences):
        out: Weights = apply(
            _DeviceWeights, phi, theta, seq_len, num_recurrences, from_differences, False
        )
        return out
    transition = _solve(phi, theta, seq_len, num_recurrences)
    if from_differences:
        return fold_differences(transition), None, transition.response
    return transition.from_states, transition.from_residuals, transition.response


def power_weights(
    phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int, from_differences: bool
) -> Weights:
    r"""Returns what Horner's rule needs; arguments as :func:`step_weights`.

    Returns:
        Weights of the states :math:`(B, R + 1, L)` and of the residuals :math:`(B, R + 1, L)`
        (:obj:`None` if they are differences), and of the bias :math:`(B, R)`.
    """
    if _runs_on_device(phi, theta, seq_len, num_recurrences):
        out: Weights = apply(
            _DeviceWeights, phi, theta, seq_len, num_recurrences, from_differences, True
        )
        return out
    transition = _solve(phi, theta, seq_len, num_recurrences)
    return last_state_weights(transition, from_differences)


def _solve(phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int) -> Transition:
    solution: Tensor = apply(SolvedRecurrence, phi, theta, seq_len, num_recurrences)
    return Transition.from_solution(solution)


def _runs_on_device(phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int) -> bool:
    fast = kernels.coefficient_kernels(phi, theta)
    return fast is not None and max(seq_len, num_recurrences) <= fast.MAX_LENGTH


class _DeviceWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        phi: Tensor,
        theta: Tensor,
        seq_len: int,
        num_recurrences: int,
        from_differences: bool,
        as_powers: bool,
    ) -> Weights:
        fast = kernels.coefficient_kernels(phi, theta)
        assert fast is not None
        solution, states, residuals, response = fast.solve(
            phi, theta, seq_len, num_recurrences, from_differences
        )
        rows = None
        if as_powers:
            rows, states, residuals, response = fast.expand_powers(
                solution, seq_len, from_differences
            )
        ctx.save_for_backward(phi, solution, rows)
        ctx.fast, ctx.ma_order = fast, theta.size(1)
        ctx.shapes = (states.size(), response.size())
        ctx.folded = from_differences
        ctx.set_materialize_grads(False)
        return states, residuals, response

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        states_gradient: Tensor | None,
        residuals_gradient: Tensor | None,
        response_gradient: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        phi, solution, rows = ctx.saved_tensors
        states_shape, response_shape = ctx.shapes
        states_gradient = _given(states_gradient, states_shape, phi)
        if not ctx.folded:
            residuals_gradient = _given(residuals_gradient, states_shape, phi)
        if rows is not None:
            if response_gradient is not None:
                response_gradient = response_gradient.contiguous()
            states_gradient, residuals_gradient, response_gradient = (
                ctx.fast.expand_powers_backward(
                    states_gradient, residuals_gradient, response_gradient, rows, solution
                )
            )
        else:
            response_gradient = _given(response_gradient, response_shape, phi)
        phi_gradient, theta_gradient = ctx.fast.solve_backward(
            states_gradient, residuals_gradient, response_gradient, solution, phi, ctx.ma_order
        )
        return phi_gradient, theta_gradient, None, None, None, None


def _given(gradient: Tensor | None, shape: torch.Size, like: Tensor) -> Tensor:
    return like.new_zeros(shape) if gradient is None else gradient.contiguous()
