"""The recurrence solved: new states as a linear map of the given sequence and the new residuals."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Transition(NamedTuple):
    r"""The matrices of :math:`\mathbf{f} = \mathbf{M}_f \mathbf{F}_0 + \mathbf{M}_\delta
    \boldsymbol{\Delta}_0 + \mathbf{H} \boldsymbol{\delta}`.

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
    dtype = torch.promote_types(phi.dtype, torch.float32)
    lags_phi = _lag_matrix(phi.double(), seq_len, num_recurrences)
    lags_theta = _lag_matrix(theta.double(), seq_len, num_recurrences)
    # e_1 + theta: the first column of I + Theta
    impulse = torch.nn.functional.pad(lags_theta[:, 1:, seq_len], (1, 0), value=1.0)
    right = torch.cat([lags_phi[..., :seq_len], lags_theta[..., :seq_len], impulse[..., None]], -1)
    identity = torch.eye(num_recurrences, dtype=torch.float64, device=phi.device)
    solution = torch.linalg.solve_triangular(
        identity - lags_phi[..., seq_len:], right, upper=False, unitriangular=True
    ).to(dtype)
    return Transition(
        from_states=solution[..., :seq_len],
        from_residuals=solution[..., seq_len : 2 * seq_len],
        response=solution[..., -1],
    )


def _lag_matrix(coefficients: Tensor, seq_len: int, num_recurrences: int) -> Tensor:
    # [B, p] -> [B, R, L + R]: the coefficient with which element c enters new element r
    order = coefficients.size(-1)
    device = coefficients.device
    row = torch.arange(seq_len, seq_len + num_recurrences, device=device)
    column = torch.arange(seq_len + num_recurrences, device=device)
    lag = row[:, None] - column
    # lags outside 1..p read the zero appended at position p
    index = torch.where((lag >= 1) & (lag <= order), lag - 1, order)
    return torch.nn.functional.pad(coefficients, (0, 1))[:, index]


def fold_differences(transition: Transition) -> Tensor:
    r"""Returns the map from states alone, if the residuals are their forward differences.

    :math:`\boldsymbol{\delta}^{(k)} = \mathbf{f}^{(k+1)} - \mathbf{f}^{(k)}` with
    :math:`\boldsymbol{\delta}^{(L-1)} = \mathbf{0}` makes
    :math:`\mathbf{M}_f + \mathbf{M}_\delta \mathbf{S}` of shape :math:`(B, R, L)`.
    """
    weights = transition.from_residuals[..., :-1]
    pad = torch.nn.functional.pad
    return transition.from_states + pad(weights, (1, 0)) - pad(weights, (0, 1))
