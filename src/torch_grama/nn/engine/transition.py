"""The recurrence solved: new states as a linear map of the given sequence and the new residuals."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from torch_grama.nn.engine.index_tables import index_table


class Transition(NamedTuple):
    r"""The matrices of :math:`\mathbf{f} = \mathbf{M}_f \mathbf{F}_0 + \mathbf{M}_\delta
    \boldsymbol{\Delta}_0 + \mathbf{H} \boldsymbol{\delta}`, in float64.

    Attributes:
        from_states: :math:`\mathbf{M}_f`, :math:`(B, R, L)`.
        from_residuals: :math:`\mathbf{M}_\delta`, :math:`(B, R, L)`.
        impulse: First column :math:`(B, R, 1)` of the lower triangular Toeplitz matrix
            :math:`\mathbf{H}`: the impulse response, which starts with 1.
    """

    from_states: Tensor
    from_residuals: Tensor
    impulse: Tensor

    @classmethod
    def from_solution(cls, solution: Tensor) -> Transition:
        r"""Takes the three matrices side by side, :math:`(B, R, 2 L + 1)`."""
        length = solution.size(-1) // 2
        return cls(*solution.split([length, length, 1], dim=-1))

    @property
    def response(self) -> Tensor:
        r"""The impulse response as rows :math:`(B, R)`."""
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

    Args:
        phi (Tensor): Autoregressive coefficients :math:`(B, p)`, newest first.
        theta (Tensor): Moving-average coefficients :math:`(B, q)`, newest first.
        seq_len (int): Length :math:`L` of the given sequence.
        num_recurrences (int): Number :math:`R` of new elements.
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
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        left, solution = ctx.saved_tensors
        seq_len, num_recurrences, ar_order, ma_order = ctx.sizes
        right_gradient = torch.linalg.solve_triangular(
            left.mT, gradient, upper=True, unitriangular=True
        )
        lag_gradient = right_gradient @ solution.mT
        left_table, right_table = _tables(left, seq_len, num_recurrences, ar_order, ma_order)
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
    left_table, right_table = _tables(phi, seq_len, num_recurrences, ar_order, theta.size(-1))
    left = -values.index_select(1, left_table).view(num_graphs, num_recurrences, num_recurrences)
    right = pad(values, (0, 1), value=1.0).index_select(1, right_table)
    return left, right.view(num_graphs, num_recurrences, 2 * seq_len + 1)


def _tables(like: Tensor, *sizes: int) -> tuple[Tensor, Tensor]:
    return (
        index_table(_left_entries, like.device, *sizes),
        index_table(_right_entries, like.device, *sizes),
    )


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
    r"""Returns the map from states alone, if the residuals are their forward differences.

    :math:`\boldsymbol{\delta}^{(k)} = \mathbf{f}^{(k+1)} - \mathbf{f}^{(k)}` with
    :math:`\boldsymbol{\delta}^{(L-1)} = \mathbf{0}` makes
    :math:`\mathbf{M}_f + \mathbf{M}_\delta \mathbf{S}` of shape :math:`(B, R, L)`.
    """
    weights = transition.from_residuals[..., :-1]
    return transition.from_states + pad(weights, (1, 0)) - pad(weights, (0, 1))
