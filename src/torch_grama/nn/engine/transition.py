"""The recurrence solved: new states as a linear map of the given sequence and the new residuals."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_grama.nn.engine.index_tables import index_table


class Transition(NamedTuple):
    r"""The matrices of :math:`\mathbf{f} = \mathbf{M}_f \mathbf{F}_0 + \mathbf{M}_\delta
    \boldsymbol{\Delta}_0 + \mathbf{H} \boldsymbol{\delta}`, in float64.

    Attributes:
        from_states: :math:`\mathbf{M}_f`, :math:`(B, R, L)`.
        from_residuals: :math:`\mathbf{M}_\delta`, :math:`(B, R, L)`.
        response: First column :math:`(B, R)` of the lower triangular Toeplitz matrix
            :math:`\mathbf{H}`: the impulse response, which starts with 1.
    """

    from_states: Tensor
    from_residuals: Tensor
    response: Tensor


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
    num_graphs, ar_order = phi.size()
    ma_order = theta.size(-1)
    # every entry of both sides is one of: 0, phi, theta, 1 (left: 0, -phi)
    values = pad(torch.cat([phi, theta], dim=-1).double(), (1, 0))
    left_table, right_table = (
        index_table(build, phi.device, seq_len, num_recurrences, ar_order, ma_order)
        for build in (_left_entries, _right_entries)
    )
    left = -values.index_select(1, left_table).view(num_graphs, num_recurrences, -1)
    right = pad(values, (0, 1), value=1.0).index_select(1, right_table)
    solution = torch.linalg.solve_triangular(
        left,
        right.view(num_graphs, num_recurrences, 2 * seq_len + 1),
        upper=False,
        unitriangular=True,
    )
    return Transition(
        from_states=solution[..., :seq_len],
        from_residuals=solution[..., seq_len : 2 * seq_len],
        response=solution[..., -1],
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
