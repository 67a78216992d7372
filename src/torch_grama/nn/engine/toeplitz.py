"""Sums along the diagonals: the gradient of a Toeplitz matrix in its first column."""

from __future__ import annotations

import torch
from torch import Tensor


def sum_diagonals(matrix: Tensor) -> Tensor:
    r"""Returns :math:`\sum_{r - k = j} m_{rk}` for :math:`j = 0, \ldots, R - 1`.

    Args:
        matrix (Tensor): Matrices :math:`(B, R, R)`.

    Returns:
        The sums :math:`(B, R)` along and below the main diagonal.
    """
    size = matrix.size(-1)
    index = torch.arange(size, device=matrix.device)
    lag = index[:, None] - index
    # entries above the diagonal go to a last column that is dropped
    column = torch.where(lag >= 0, lag, size).flatten()
    sums = matrix.new_zeros(matrix.size(0), size + 1)
    return sums.index_add_(1, column, matrix.flatten(1))[:, :size]
