"""Eigenvalues of many small matrices, none of which may bring down the rest."""

from __future__ import annotations

import torch
from torch import Tensor

_NotConverged: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


def eigenvalues(matrices: Tensor) -> Tensor:
    r"""The eigenvalues ``[..., n]`` of matrices ``[..., n, n]``.

    LAPACK's iteration does not converge for about one in a thousand companion matrices whose
    entries span many orders of magnitude, as the coefficients of a saturated softmax do, and then
    refuses the whole batch. Such a matrix is tried again as its transpose, which has the same
    eigenvalues, and at last with a perturbation of the size of its own rounding.
    """
    try:
        found: Tensor = torch.linalg.eigvals(matrices)
    except _NotConverged:
        size = matrices.size(-1)
        singles = [_one_by_one(matrix) for matrix in matrices.reshape(-1, size, size)]
        found = torch.stack(singles).view(matrices.shape[:-1])
    return found


def _one_by_one(matrix: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(matrix.shape, generator=generator, dtype=torch.float64).to(matrix)
    scale = torch.finfo(matrix.dtype).eps * matrix.abs().max()
    for attempt in (matrix, matrix.mT):
        try:
            found: Tensor = torch.linalg.eigvals(attempt)
            return found
        except _NotConverged:
            continue
    perturbed: Tensor = torch.linalg.eigvals(matrix + scale * noise)
    return perturbed
