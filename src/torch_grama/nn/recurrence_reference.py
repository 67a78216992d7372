"""The recurrence as the equation says it, one lag at a time: slow, and the judge of the rest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def arma_recurrence_reference(
    states: Tensor,
    residuals: Tensor,
    phi: Tensor,
    theta: Tensor,
    backbone: Callable[[Tensor], Tensor],
    num_recurrences: int,
    batch: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The ARMA recurrence of GRAMA, written straight from its equation.

    .. math::
        \mathbf{f}^{(t)} = \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    for :math:`t = L, \ldots, L + R - 1`. See :func:`arma_recurrence` for arguments and shapes; the
    two are equal in value and gradient.
    """
    f = list(states.unbind(0))
    d = list(residuals.unbind(0))
    new_states, new_residuals = [], []
    for _ in range(num_recurrences):
        newest_residual = backbone(f[-1])
        newest_state = newest_residual
        for i in range(1, phi.size(-1) + 1):
            newest_state = newest_state + _per_node(phi[..., i - 1], batch) * f[-i]
        for j in range(1, theta.size(-1) + 1):
            newest_state = newest_state + _per_node(theta[..., j - 1], batch) * d[-j]
        f.append(newest_state)
        d.append(newest_residual)
        new_states.append(newest_state)
        new_residuals.append(newest_residual)
    return torch.stack(new_states), torch.stack(new_residuals)


def _per_node(coefficient: Tensor, batch: Tensor | None) -> Tensor:
    # [] or [1] for all nodes; [B] -> [N, 1] through the batch vector
    if coefficient.dim() == 0 or batch is None:
        return coefficient
    return coefficient[batch].unsqueeze(-1)
