"""Batch normalisation in training, over the first rows of a batch where the rest is padding."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from torch_grama.nn.engine.edge_messages import differentiate, edge_kernels
from torch_grama.nn.engine.sequence import apply


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    count: Tensor | None = None,
    onto: Tensor | None = None,
) -> Tensor:
    r"""Normalises rows :math:`(N, F)` by mean and variance of the first ones and moves the running
    statistics, as :func:`torch.nn.functional.batch_norm` does with all rows. The others come out
    as zero.

    Args:
        x (Tensor): The rows.
        running_mean (Tensor, optional): Moved in place.
        running_var (Tensor, optional): Likewise, by the variance without bias.
        weight (Tensor, optional): The scale :math:`(F)`.
        bias (Tensor, optional): The shift :math:`(F)`.
        momentum (float): The share of the new statistics.
        eps (float): Added to the variance.
        count (Tensor, optional): How many rows count, an integer of no dimension on the device, two
            at least. (default: :obj:`None`, all)
        onto (Tensor, optional): Returned with the positive part of the result added to it,
            :math:`(N, F)`. (default: :obj:`None`)
    """
    fast = edge_kernels(x, weight, bias)
    if fast is not None and weight is not None and bias is not None:
        if onto is not None and not (onto.stride(0) == 0 and onto.stride(1) == 1):
            onto = onto.contiguous()
        running = running_mean, running_var
        out: Tensor = apply(_BatchNorm, x, weight, bias, onto, *running, momentum, eps, count, fast)
        return out
    if count is None:
        out = F.batch_norm(x, running_mean, running_var, weight, bias, True, momentum, eps)
    else:
        out = norm_marked_rows(x, running_mean, running_var, weight, bias, momentum, eps, count)
    return out if onto is None else onto + F.relu(out)


def norm_marked_rows(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    count: Tensor,
    real: Tensor | None = None,
) -> Tensor:
    r"""As :func:`batch_norm`, by the rows that are marked, wherever they lie.

    Args:
        count (Tensor): How many rows count, as for :func:`batch_norm`.
        real (Tensor, optional): Which ones :math:`(N)`. (default: :obj:`None`, the first)
    """
    if real is None:
        real = torch.arange(x.size(0), device=x.device) < count
    dtype = torch.promote_types(x.dtype, torch.float32)
    real = real.unsqueeze(1)
    # by choice, not by products with zero: padding may hold anything
    values = torch.where(real, x.to(dtype), 0.0)
    mean = values.sum(dim=0) / count
    centered = torch.where(real, values - mean, 0.0)
    variance = centered.square().sum(dim=0) / count
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = variance * (count / (count - 1).clamp(min=1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    out = centered * (variance + eps).rsqrt()
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return torch.where(real, out, 0.0).to(x.dtype)


class _BatchNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        onto: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        momentum: float,
        eps: float,
        count: Tensor | None,
        fast: ModuleType,
    ) -> Tensor:
        running = running_mean, running_var
        out: Tensor
        out, statistics = fast.batch_norm(x, onto, weight, bias, *running, momentum, eps, count)
        ctx.save_for_backward(x, weight, bias, statistics, count)
        ctx.eps, ctx.rectified, ctx.fast = eps, onto is not None, fast
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, statistics, count = ctx.saved_tensors
        of_onto = gradient if ctx.needs_input_grad[3] else None
        gradients: tuple[Tensor | None, ...]
        if torch.is_grad_enabled():
            if count is None:
                count = torch.tensor(x.size(0), device=x.device)
            out = norm_marked_rows(x, None, None, weight, bias, 0.0, ctx.eps, count)
            out = F.relu(out) if ctx.rectified else out
            gradients = differentiate(out, (x, weight, bias), gradient.to(out.dtype))
        else:
            gradients = ctx.fast.batch_norm_gradient(
                gradient.contiguous(), x, statistics, weight, bias, ctx.rectified, count
            )
        return *gradients, of_onto, *(None,) * 6
