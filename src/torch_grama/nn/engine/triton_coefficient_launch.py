"""The coefficients of each graph through Triton: a launch or two where torch takes dozens."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from torch_grama.nn.engine.triton_closed_form import (
    horner_backward_kernel,
    horner_kernel,
    solve_backward_kernel,
    solve_kernel,
)
from torch_grama.nn.engine.triton_coefficients import select_backward_kernel, select_kernel

# Longer sequences and wider states go through torch: a program holds them in registers.
MAX_LENGTH = 64
MAX_CHANNELS = 1024
_BLOCK = 32


class Selection(NamedTuple):
    r"""Weights of one selective set of coefficients, as the kernels read them.

    Attributes:
        query_weight: :math:`(F, F)`.
        query_bias: :math:`(F)`.
        key_weight: :math:`(F, F)`.
        lag_bias: :math:`(p)`.
    """

    query_weight: Tensor
    query_bias: Tensor
    key_weight: Tensor
    lag_bias: Tensor


def select(
    states: Tensor,
    residuals: Tensor | None,
    ar: Selection,
    ma: Selection,
    scale: float,
    guard: float,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Returns both sets of coefficients, ``[2, B, p]``, and what the gradient needs of them.

    ``states`` and ``residuals`` are means, ``[B, L, F]``; without residuals, these are the forward
    differences of the states.
    """
    num_graphs, length, channels = states.size()
    order = ar.lag_bias.numel()
    coefficients = states.new_empty(2, num_graphs, order)
    scores = states.new_empty(2, num_graphs, order, dtype=torch.float64)
    vectors = states.new_empty(2, 3, num_graphs, channels)
    select_kernel[(num_graphs, 2)](
        coefficients,
        scores,
        vectors,
        states,
        states if residuals is None else residuals,
        *ar,
        *ma,
        num_graphs,
        scale,
        guard,
        LENGTH=length,
        CHANNELS=channels,
        ORDER=order,
        DIFFERENCES=residuals is None,
        **_tile(order, channels),
    )
    return coefficients, scores, vectors


def select_backward(
    phi_gradient: Tensor,
    theta_gradient: Tensor,
    scores: Tensor,
    vectors: Tensor,
    states: Tensor,
    residuals: Tensor | None,
    ar: Selection,
    ma: Selection,
    scale: float,
    guard: float,
) -> tuple[Tensor, Tensor]:
    r"""Returns the gradients of the two sequences, ``[2, B, L, F]``, and side by side those of the
    query, of what it asks and of the lag bias, ``[2, B, 2 F + p]``.
    """
    num_graphs, length, channels = states.size()
    order = ar.lag_bias.numel()
    sequence_gradient = states.new_empty(2, num_graphs, length, channels)
    vector_gradients = states.new_empty(2, num_graphs, 2 * channels + order)
    select_backward_kernel[(num_graphs, 2)](
        sequence_gradient,
        vector_gradients,
        phi_gradient,
        theta_gradient,
        scores,
        vectors,
        states,
        states if residuals is None else residuals,
        ar.query_weight,
        ar.key_weight,
        ma.query_weight,
        ma.key_weight,
        num_graphs,
        scale,
        guard,
        LENGTH=length,
        CHANNELS=channels,
        ORDER=order,
        DIFFERENCES=residuals is None,
        **_tile(order, channels),
    )
    return sequence_gradient, vector_gradients


def solve(
    phi: Tensor, theta: Tensor, length: int, steps: int, fold: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    r"""Returns the closed form, ``[B, R, C]`` in float64, and its parts in float32: what multiplies
    states and residuals, ``[B, R, L]`` each, and the impulse response, ``[B, R]``.

    With ``fold`` the residuals are differences of the states, and have no part of their own.
    """
    num_graphs = phi.size(0)
    columns = (length if fold else 2 * length) + 1
    solution = phi.new_empty(num_graphs, steps, columns, dtype=torch.float64)
    states = phi.new_empty(num_graphs, steps, length)
    residuals = None if fold else torch.empty_like(states)
    response = phi.new_empty(num_graphs, steps)
    solve_kernel[(num_graphs, triton.cdiv(columns, _BLOCK))](
        solution,
        states,
        states if residuals is None else residuals,
        response,
        phi,
        theta,
        LENGTH=length,
        STEPS=steps,
        STEPS_PADDED=triton.next_power_of_2(steps),
        AR=phi.size(1),
        MA=theta.size(1),
        BLOCK=_BLOCK,
        FOLD=fold,
    )
    return solution, states, residuals, response


def solve_backward(
    states_gradient: Tensor,
    residuals_gradient: Tensor | None,
    response_gradient: Tensor,
    solution: Tensor,
    phi: Tensor,
    ma_order: int,
) -> tuple[Tensor, Tensor]:
    r"""Returns the gradients of both sets of coefficients, ``[B, p]`` and ``[B, q]``."""
    num_graphs, steps, length = states_gradient.size()
    phi_gradient = torch.empty_like(phi)
    theta_gradient = phi.new_empty(num_graphs, ma_order)
    solve_backward_kernel[(num_graphs,)](
        phi_gradient,
        theta_gradient,
        states_gradient,
        states_gradient if residuals_gradient is None else residuals_gradient,
        response_gradient,
        solution,
        phi,
        LENGTH=length,
        STEPS=steps,
        STEPS_PADDED=triton.next_power_of_2(steps),
        AR=phi.size(1),
        MA=ma_order,
        ORDER_PADDED=triton.next_power_of_2(max(phi.size(1), ma_order)),
        BLOCK=_BLOCK,
        FOLD=residuals_gradient is None,
    )
    return phi_gradient, theta_gradient


def expand_powers(
    solution: Tensor, length: int, fold: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    r"""Expands the last state in powers of a linear backbone.

    Returns the rows, ``[B, R, R]`` in float64, and the weights of states and residuals,
    ``[B, R + 1, L]`` each, and of the bias, ``[B, R]``.
    """
    num_graphs, steps, _ = solution.size()
    rows = solution.new_empty(num_graphs, steps, steps)
    states = solution.new_empty(num_graphs, steps + 1, length, dtype=torch.float32)
    residuals = None if fold else torch.empty_like(states)
    bias = solution.new_empty(num_graphs, steps, dtype=torch.float32)
    horner_kernel[(num_graphs,)](
        rows,
        states,
        states if residuals is None else residuals,
        bias,
        solution,
        LENGTH=length,
        STEPS=steps,
        STEPS_PADDED=triton.next_power_of_2(steps),
        BLOCK=_BLOCK,
        FOLD=fold,
    )
    return rows, states, residuals, bias


def expand_powers_backward(
    states_gradient: Tensor,
    residuals_gradient: Tensor | None,
    bias_gradient: Tensor | None,
    rows: Tensor,
    solution: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor]:
    r"""Returns the gradients of the parts of the closed form, in float64."""
    num_graphs, steps, _ = rows.size()
    length = states_gradient.size(-1)
    states_out = rows.new_empty(num_graphs, steps, length)
    residuals_out = None if residuals_gradient is None else torch.empty_like(states_out)
    response_out = rows.new_empty(num_graphs, steps)
    horner_backward_kernel[(num_graphs,)](
        states_out,
        states_out if residuals_out is None else residuals_out,
        response_out,
        states_gradient,
        states_gradient if residuals_gradient is None else residuals_gradient,
        bias_gradient,
        rows,
        solution,
        LENGTH=length,
        STEPS=steps,
        STEPS_PADDED=triton.next_power_of_2(steps),
        BLOCK=_BLOCK,
        FOLD=residuals_gradient is None,
        HAS_BIAS=bias_gradient is not None,
    )
    return states_out, residuals_out, response_out


def _tile(order: int, channels: int) -> dict[str, int]:
    width = triton.next_power_of_2(channels)
    return {
        "ORDER_PADDED": triton.next_power_of_2(order),
        "WIDTH": width,
        "ROWS": max(4096 // width, 1),
    }
