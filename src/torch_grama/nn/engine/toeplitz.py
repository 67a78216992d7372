"""Lower triangular Toeplitz matrices, given by their first column."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from torch_grama.nn.engine.index_tables import index_table


def toeplitz(column: Tensor, delay: int = 0) -> Tensor:
    r"""Returns the matrix :math:`m_{rk} = c_{r - k - \mathrm{delay}}`, zero for negative indices.

    Args:
        column (Tensor): First columns :math:`(B, R)`.
        delay (int, optional): Number of rows by which the matrix is shifted down.
            (default: :obj:`0`)

    Returns:
        Matrices :math:`(B, R, R)`.
    """
    size = column.size(-1)
    table = index_table(_entries, column.device, size, delay)
    return pad(column, (1, 0)).index_select(1, table).view(-1, size, size)


def sum_diagonals(matrix: Tensor) -> Tensor:
    r"""Returns :math:`\sum_{r - k = j} m_{rk}` for :math:`j = 0, \ldots, R - 1`: the gradient of
    :func:`toeplitz` in the column.

    Args:
        matrix (Tensor): Matrices :math:`(B, R, R)`.

    Returns:
        The sums :math:`(B, R)` along and below the main diagonal.
    """
    size = matrix.size(-1)
    table = index_table(_entries, matrix.device, size, 0)
    # entries above the diagonal go to a first column that is dropped
    sums = matrix.new_zeros(matrix.size(0), size + 1)
    return sums.index_add_(1, table, matrix.flatten(1))[:, 1:]


def _entries(size: int, delay: int) -> list[int]:
    # 0 stands for the zero before the column, j + 1 for its entry j
    return [max(row - k - delay + 1, 0) for row in range(size) for k in range(size)]
