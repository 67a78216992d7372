"""Brings columns to mean zero and deviation one, and back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module


class Standardize(Module):
    r"""Shifts and scales columns by numbers that are measured once and kept with the weights:

    .. math::
        \mathbf{z} = (\mathbf{x} - \boldsymbol{\mu}) / \boldsymbol{\sigma}

    where :math:`\boldsymbol{\mu}` and :math:`\boldsymbol{\sigma}` are mean and deviation of each
    column of what :meth:`fit` was given. Columns of zeros and ones and columns without spread
    stay as they are, so that a rare flag is not blown up.

    Args:
        channels (int): Number of columns.

    Shapes:
        - **input:** :math:`(*, F)`
        - **output:** :math:`(*, F)`

    Example:
        >>> standardize = Standardize(1)
        >>> standardize.fit(torch.tensor([[10.0], [20.0], [30.0]]))
        >>> standardize(torch.tensor([[20.0], [30.0]])).flatten().tolist()
        [0.0, 1.2247449159622192]
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def reset_parameters(self) -> None:
        r"""Does nothing: what was measured stays."""

    def forward(self, x: Tensor) -> Tensor:
        r"""Standardises columns."""
        return (x - self.mean) / self.scale

    def invert(self, z: Tensor) -> Tensor:
        r"""Takes standardised columns back to their units."""
        return z * self.scale + self.mean

    def fit(self, x: Tensor) -> None:
        r"""Measures mean and deviation of columns; rows with NaN are left out.

        Args:
            x (Tensor): Rows :math:`(N, F)`.
        """
        x = x.double().reshape(-1, self.channels)
        x = x[x.isfinite().all(dim=1)]
        if len(x) == 0:
            return
        mean, scale = x.mean(dim=0), x.std(dim=0, correction=0)
        kept = ((x == 0) | (x == 1)).all(dim=0) | (scale < 1e-12 * (1 + mean.abs()))
        self.mean.copy_(torch.where(kept, 0.0, mean))
        self.scale.copy_(torch.where(kept, 1.0, scale))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"
