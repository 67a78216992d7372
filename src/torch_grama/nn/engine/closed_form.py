"""The recurrence in closed form: weights of the given sequence and the impulse response."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.sequence import apply, handwritten_backward, index_table

# Weights of the given states and residuals (None: differences), and a row for each graph.
Weights = tuple[Tensor, Tensor | None, Tensor]


def _weights(
    phi: Tensor,
    theta: Tensor,
    seq_len: int,
    num_recurrences: int,
    from_differences: bool,
    as_powers: bool,
) -> Weights:
    if _runs_on_device(phi, theta, seq_len, num_recurrences):
        out: Weights = apply(
            _DeviceWeights, phi, theta, seq_len, num_recurrences, from_differences, as_powers
        )
        return out
    solution: Tensor = apply(SolvedRecurrence, phi, theta, seq_len, num_recurrences)
    transition = Transition.from_solution(solution)
    if as_powers:
        return last_state_weights(transition, from_differences)
    if from_differences:
        return fold_differences(transition), None, transition.response
    return transition.from_states, transition.from_residuals, transition.response


# What the steps need: weights of the sequence [B, R, L], and the impulse response [B, R].
step_weights = partial(_weights, as_powers=False)
# What Horner's rule needs: weights of the sequence [B, R + 1, L], and of the bias [B, R].
power_weights = partial(_weights, as_powers=True)


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
    @handwritten_backward
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


def last_state_rows(response: Tensor) -> tuple[Tensor, Tensor]:
    r"""Returns the rows :math:`\mathbf{e}^{\top} (\mathbf{H S})^m` that expand the last new state
    in powers of a linear backbone, :math:`(B, R, R)`, and these times :math:`\mathbf{H}`.

    With :math:`\boldsymbol{\delta}_k = \mathbf{T} \mathbf{f}_{k-1} + \mathbf{b}` the recurrence
    :math:`\mathbf{f} = \mathbf{u} + \mathbf{H} \boldsymbol{\delta}` becomes, with the shift
    :math:`\mathbf{S}` and the newest given state :math:`\mathbf{f}_{-1}`,

    .. math::
        \mathbf{f}_{R-1} = \sum_{m=0}^{R-1} \mathbf{T}^m \, \mathbf{e}^{\top} (\mathbf{H S})^m
        \left( \mathbf{u} + \mathbf{H} \mathbf{1} \mathbf{b} + \mathbf{H} \mathbf{e}_0 \mathbf{T}
        \mathbf{f}_{-1} \right),

    since scalars commute with :math:`\mathbf{T}` and :math:`(\mathbf{H S})^R = 0`. The rows are
    built by doubling, so that their number of small products grows with :math:`\log R`.
    """
    num_graphs, num_recurrences = response.size()
    # e^T, then rows 1, 2-3, 4-7, ... from those before
    rows = pad(response.new_ones(num_graphs, 1, 1), (num_recurrences - 1, 0))
    power = toeplitz(response, delay=1)
    while rows.size(1) < num_recurrences:
        rows = torch.cat([rows, rows @ power], dim=1)
        if rows.size(1) < num_recurrences:
            power = power @ power
    rows = rows[:, :num_recurrences]
    return rows, rows @ toeplitz(response)


def last_state_weights(transition: Transition, from_differences: bool) -> Weights:
    rows, response_rows = last_state_rows(transition.response)
    residual_weights = None
    if from_differences:
        state_weights = rows @ fold_differences(transition)
    else:
        state_weights = rows @ transition.from_states
        residual_weights = pad(rows @ transition.from_residuals, (0, 0, 0, 1))
    # the newest given state also enters through the first residual, one power higher
    length = state_weights.size(-1)
    through_backbone = pad(response_rows[..., :1], (length - 1, 0, 1, 0))
    state_weights = pad(state_weights, (0, 0, 0, 1)) + through_backbone
    return state_weights, residual_weights, response_rows.sum(-1)


class Transition(NamedTuple):
    r"""The matrices of :math:`\mathbf{f} = \mathbf{M}_f \mathbf{F}_0 + \mathbf{M}_\delta
    \boldsymbol{\Delta}_0 + \mathbf{H} \boldsymbol{\delta}`, in float64: :math:`(B, R, L)` each, and
    the first column of the lower triangular Toeplitz matrix :math:`\mathbf{H}`.
    """

    from_states: Tensor
    from_residuals: Tensor
    impulse: Tensor

    @classmethod
    def from_solution(cls, solution: Tensor) -> Transition:
        length = solution.size(-1) // 2
        return cls(*solution.split([length, length, 1], dim=-1))

    @property
    def response(self) -> Tensor:
        return self.impulse.squeeze(-1)


def solve_recurrence(phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int) -> Transition:
    r"""Solves the ARMA recurrence for all new states at once.

    With the lag matrices :math:`\boldsymbol{\Phi}, \boldsymbol{\Theta}` among the new elements and
    :math:`\boldsymbol{\Phi}_0, \boldsymbol{\Theta}_0` towards the given ones, the recurrence reads

    .. math::
        (\mathbf{I} - \boldsymbol{\Phi}) \mathbf{f} = \boldsymbol{\Phi}_0 \mathbf{F}_0 +
        \boldsymbol{\Theta}_0 \boldsymbol{\Delta}_0 +
        (\mathbf{I} + \boldsymbol{\Theta}) \boldsymbol{\delta},

    one unit lower triangular system with :math:`2 L + 1` right-hand sides. It is solved in float64:
    the matrices are tiny, and their powers are what a long recurrence is made of.
    """
    left, right = _sides(phi, theta, seq_len, num_recurrences)
    solution = torch.linalg.solve_triangular(left, right, upper=False, unitriangular=True)
    return Transition.from_solution(solution)


class SolvedRecurrence(torch.autograd.Function):
    r"""The same as :func:`solve_recurrence` with its gradient written out.

    With :math:`\mathbf{A} \mathbf{Z} = \mathbf{Q}`, the gradient of the right-hand side is
    :math:`\bar{\mathbf{Q}} = \mathbf{A}^{-\top} \bar{\mathbf{Z}}`, that of
    :math:`\boldsymbol{\Phi} = \mathbf{I} - \mathbf{A}` is
    :math:`\bar{\mathbf{Q}} \mathbf{Z}^{\top}`: a handful of small operations in place of dozens,
    which is what a small graph on a fast device waits for.
    """

    @staticmethod
    def forward(ctx: Any, phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int) -> Tensor:
        left, right = _sides(phi, theta, seq_len, num_recurrences)
        solution: Tensor = torch.linalg.solve_triangular(
            left, right, upper=False, unitriangular=True
        )
        ctx.save_for_backward(left, solution)
        ctx.sizes = (seq_len, num_recurrences, phi.size(-1), theta.size(-1))
        ctx.dtypes = (phi.dtype, theta.dtype)
        return solution

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        left, solution = ctx.saved_tensors
        _, _, ar_order, ma_order = ctx.sizes
        right_gradient = torch.linalg.solve_triangular(
            left.mT, gradient, upper=True, unitriangular=True
        )
        lag_gradient = right_gradient @ solution.mT
        left_table = index_table(_left_entries, left.device, *ctx.sizes)
        right_table = index_table(_right_entries, left.device, *ctx.sizes)
        values = left.new_zeros(left.size(0), 2 + ar_order + ma_order)
        values.index_add_(1, left_table, lag_gradient.flatten(1))
        values.index_add_(1, right_table, right_gradient.flatten(1))
        phi_gradient = values[:, 1 : 1 + ar_order].to(ctx.dtypes[0])
        theta_gradient = values[:, 1 + ar_order : 1 + ar_order + ma_order].to(ctx.dtypes[1])
        return phi_gradient, theta_gradient, None, None


def _sides(phi: Tensor, theta: Tensor, seq_len: int, num_recurrences: int) -> tuple[Tensor, Tensor]:
    r"""Returns :math:`\mathbf{I} - \boldsymbol{\Phi}` (its diagonal is not read) and the right-hand
    sides, whose every entry is one of 0, phi, theta, 1.
    """
    num_graphs, ar_order = phi.size()
    values = pad(torch.cat([phi, theta], dim=-1).double(), (1, 0))
    sizes = seq_len, num_recurrences, ar_order, theta.size(-1)
    left_table = index_table(_left_entries, phi.device, *sizes)
    right_table = index_table(_right_entries, phi.device, *sizes)
    left = -values.index_select(1, left_table).view(num_graphs, num_recurrences, num_recurrences)
    right = pad(values, (0, 1), value=1.0).index_select(1, right_table)
    return left, right.view(num_graphs, num_recurrences, 2 * seq_len + 1)


def _left_entries(seq_len: int, num_recurrences: int, ar_order: int, ma_order: int) -> list[int]:
    r"""Phi, row by row: where each entry stands in (0, phi, theta, 1)."""
    del seq_len, ma_order
    steps = range(num_recurrences)
    return [
        row - column if 1 <= row - column <= ar_order else 0 for row in steps for column in steps
    ]


def _right_entries(seq_len: int, num_recurrences: int, ar_order: int, ma_order: int) -> list[int]:
    r"""[Phi0, Theta0, first column of I + Theta], row by row, likewise."""
    table = []
    for row in range(num_recurrences):
        # element c of the given sequence lies L + row - c steps back
        lags = [seq_len + row - column for column in range(seq_len)]
        table += [lag if lag <= ar_order else 0 for lag in lags]
        table += [ar_order + lag if lag <= ma_order else 0 for lag in lags]
        impulse = ar_order + row if row <= ma_order else 0
        table.append(1 + ar_order + ma_order if row == 0 else impulse)
    return table


def fold_differences(transition: Transition) -> Tensor:
    r"""Returns :math:`\mathbf{M}_f + \mathbf{M}_\delta \mathbf{S}`, the map from states alone if
    residuals are their forward differences (the last one zero).
    """
    weights = transition.from_residuals[..., :-1]
    return transition.from_states + pad(weights, (1, 0)) - pad(weights, (0, 1))


def toeplitz(column: Tensor, delay: int = 0) -> Tensor:
    r"""Returns :math:`m_{rk} = c_{r - k - \mathrm{delay}}`, or zero, :math:`(B, R, R)`."""
    size = column.size(-1)
    table = index_table(_entries, column.device, size, delay)
    return pad(column, (1, 0)).index_select(1, table).view(-1, size, size)


def sum_diagonals(matrix: Tensor) -> Tensor:
    r"""Returns :math:`\sum_{r-k=j} m_{rk}`, :math:`(B, R)`, the gradient of :func:`toeplitz`."""
    size = matrix.size(-1)
    table = index_table(_entries, matrix.device, size, 0)
    # entries above the diagonal go to a first column that is dropped
    sums = matrix.new_zeros(matrix.size(0), size + 1)
    return sums.index_add_(1, table, matrix.flatten(1))[:, 1:]


def _entries(size: int, delay: int) -> list[int]:
    # 0 stands for the zero before the column, j + 1 for its entry j
    return [max(row - k - delay + 1, 0) for row in range(size) for k in range(size)]
