"""Coefficients with which the last state alone is computed, without any sum over history."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_grama.nn.engine.toeplitz import toeplitz
from torch_grama.nn.engine.transition import Transition, fold_differences


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


def last_state_weights(
    transition: Transition, from_differences: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    r"""Returns what multiplies the given sequence and the bias at each power of the backbone.

    Args:
        transition (Transition): The solved recurrence.
        from_differences (bool): Whether the residuals are the forward differences of the states.

    Returns:
        Weights of the states :math:`(B, R + 1, L)` and of the residuals :math:`(B, R + 1, L)`
        (:obj:`None` if they are differences), and of the bias :math:`(B, R)`.
    """
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
