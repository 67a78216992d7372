"""Batch normalisation in training, over the first rows of a batch where the rest is padding."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    count: Tensor,
) -> Tensor:
    r"""Normalises rows :math:`(N, F)` by mean and variance of the first ones and moves the running
    statistics, as :func:`torch.nn.functional.batch_norm` does with all rows.

    Args:
        x (Tensor): The rows.
        running_mean (Tensor, optional): Moved in place.
        running_var (Tensor, optional): Likewise, by the variance without bias.
        weight (Tensor, optional): The scale :math:`(F)`.
        bias (Tensor, optional): The shift :math:`(F)`.
        momentum (float): The share of the new statistics.
        eps (float): Added to the variance.
        count (Tensor): How many rows count, an integer of no dimension on the device, two at least.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    rows = torch.arange(x.size(0), device=x.device)
    real = (rows < count).to(dtype).unsqueeze(1)
    values = x.to(dtype)
    mean = (values * real).sum(dim=0) / count
    centered = values - mean
    variance = (centered.square() * real).sum(dim=0) / count
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = variance * (count / (count - 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    out = centered * (variance + eps).rsqrt()
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out.to(x.dtype)
