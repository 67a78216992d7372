"""Coefficients with which the last state alone is computed, without any sum over history."""

from __future__ import annotations

import torch
from torch import Tensor


def last_state_rows(response: Tensor) -> tuple[Tensor, Tensor]:
    r"""Expands the last new state in powers of a linear backbone.

    With :math:`\boldsymbol{\delta}_k = \mathbf{T} \mathbf{f}_{k-1} + \mathbf{b}` the recurrence
    :math:`\mathbf{f} = \mathbf{u} + \mathbf{H} \boldsymbol{\delta}` becomes, with the shift
    :math:`\mathbf{S}` and the newest given state :math:`\mathbf{f}_{-1}`,

    .. math::
        \mathbf{f}_{R-1} = \sum_{m=0}^{R-1} \mathbf{T}^m \, \mathbf{e}^{\top} (\mathbf{H S})^m
        \left( \mathbf{u} + \mathbf{H} \mathbf{1} \mathbf{b} + \mathbf{H} \mathbf{e}_0 \mathbf{T}
        \mathbf{f}_{-1} \right),

    since scalars commute with :math:`\mathbf{T}` and :math:`(\mathbf{H S})^R = 0`. The rows are
    built by doubling, so that their number of small products grows with :math:`\log R`.

    Args:
        response (Tensor): First column :math:`(B, R)` of :math:`\mathbf{H}`.

    Returns:
        The rows :math:`\mathbf{e}^{\top} (\mathbf{H S})^m`, :math:`(B, R, R)`, and the same rows
        times :math:`\mathbf{H}`, :math:`(B, R, R)`.
    """
    num_recurrences = response.size(-1)
    index = torch.arange(num_recurrences, device=response.device)
    lag = index[:, None] - index
    padded = torch.nn.functional.pad(response, (0, 1))
    toeplitz = padded[:, torch.where(lag >= 0, lag, num_recurrences)]
    # H S: the Toeplitz matrix whose first column is the response delayed by one
    power = padded[:, torch.where(lag >= 1, lag - 1, num_recurrences)]
    rows = torch.nn.functional.one_hot(index[-1:], num_recurrences).to(response.dtype)
    rows = rows.expand(response.size(0), 1, -1)
    while rows.size(1) < num_recurrences:
        rows = torch.cat([rows, rows @ power], dim=1)
        power = power @ power
    rows = rows[:, :num_recurrences]
    return rows, rows @ toeplitz
