"""Both sets of selective coefficients at once, with their gradient written out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.coefficients import NaiveCoefficients, SelectiveCoefficients
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.device_selection import DeviceSelection
from torch_grama.nn.engine.handwritten import apply
from torch_grama.nn.node_sequence import forward_differences


def select_jointly(
    ar_coefficients: SelectiveCoefficients | NaiveCoefficients,
    ma_coefficients: SelectiveCoefficients | NaiveCoefficients,
    pooled_states: Tensor,
    pooled_residuals: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r"""Returns the autoregressive and the moving-average coefficients, :math:`(B, p)` and
    :math:`(B, q)`.

    Equal to calling the two modules one after the other. In the common case (selective, of equal
    order, normalised by the sum) both go through the same few operations together: the tensors are
    tiny, and on a fast device it is their number that costs time.

    Args:
        ar_coefficients (Module): Makes the autoregressive coefficients.
        ma_coefficients (Module): Makes the moving-average coefficients.
        pooled_states (Tensor): Means of the states :math:`(B, L, F)`.
        pooled_residuals (Tensor, optional): Means of the residuals :math:`(B, L, F)`; :obj:`None`
            for the forward differences of the states.
    """
    if not _can_join(ar_coefficients, ma_coefficients):
        return (
            ar_coefficients.from_pooled(pooled_states),
            ma_coefficients.from_pooled(_residuals(pooled_states, pooled_residuals)),
        )
    assert isinstance(ar_coefficients, SelectiveCoefficients)
    assert isinstance(ma_coefficients, SelectiveCoefficients)
    pair = (ar_coefficients, ma_coefficients)
    dtype = ar_coefficients.key_weight.dtype
    scale = 1 / math.sqrt(ar_coefficients.channels * ar_coefficients.heads)
    guard = ar_coefficients.guard
    parameters = [_parameters(module) for module in pair]
    if _runs_on_device(pooled_states, pooled_residuals, *parameters[0], *parameters[1]):
        phi, theta = apply(
            DeviceSelection,
            pooled_states,
            pooled_residuals,
            *parameters[0],
            *parameters[1],
            scale,
            guard,
        )
        return phi, theta
    pooled_residuals = _residuals(pooled_states, pooled_residuals)
    with torch.autocast(pooled_states.device.type, enabled=False):
        both: Tensor = apply(
            _JointSelection,
            torch.stack([pooled_states, pooled_residuals]).to(dtype),
            *(torch.stack(both) for both in zip(*parameters, strict=True)),
            scale,
            guard,
        )
    phi, theta = both.unbind(0)
    return phi, theta


def _residuals(pooled_states: Tensor, pooled_residuals: Tensor | None) -> Tensor:
    if pooled_residuals is not None:
        return pooled_residuals
    return forward_differences(pooled_states.transpose(0, 1)).transpose(0, 1)


def _parameters(module: SelectiveCoefficients) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return module.query_weight, module.query_bias, module.key_weight, module.lag_bias


def _runs_on_device(pooled: Tensor, *others: Tensor | None) -> bool:
    fast = kernels.coefficient_kernels(pooled, *(t for t in others if t is not None))
    return fast is not None and pooled.size(-1) <= fast.MAX_CHANNELS


def _can_join(
    ar_coefficients: SelectiveCoefficients | NaiveCoefficients,
    ma_coefficients: SelectiveCoefficients | NaiveCoefficients,
) -> bool:
    return (
        isinstance(ar_coefficients, SelectiveCoefficients)
        and isinstance(ma_coefficients, SelectiveCoefficients)
        and ar_coefficients.order == ma_coefficients.order
        and ar_coefficients.heads == ma_coefficients.heads
        and ar_coefficients.normalization == ma_coefficients.normalization == "sum"
        and ar_coefficients.guard == ma_coefficients.guard
    )


class _JointSelection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        pooled: Tensor,
        query_weight: Tensor,
        query_bias: Tensor,
        key_weight: Tensor,
        lag_bias: Tensor,
        scale: float,
        guard: float,
    ) -> Tensor:
        order = lag_bias.size(-1)
        newest = pooled[:, :, -1]  # [2, B, F]
        query = torch.baddbmm(query_bias.unsqueeze(1), newest, query_weight.mT)
        asked = query @ key_weight
        keys = pooled[:, :, -order:].flip(2)  # [2, B, p, F], newest first
        scores = (keys @ asked.unsqueeze(-1)).squeeze(-1)
        c = torch.add(lag_bias.unsqueeze(1), scores, alpha=scale).tanh_()
        # c s / m + (1 - s^2 / m) / p with m = max(s^2, guard^2)
        s = c.sum(dim=-1, keepdim=True)
        ratio = s / (s * s).clamp_(min=guard * guard)
        out = torch.addcmul((1 - s * ratio) / order, c, ratio)
        ctx.save_for_backward(pooled, query_weight, key_weight, query, asked, keys, c, s, ratio)
        ctx.scale, ctx.guard = scale, guard
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        pooled, query_weight, key_weight, query, asked, keys, c, s, ratio = ctx.saved_tensors
        order, guard = c.size(-1), ctx.guard
        mean = g.mean(dim=-1, keepdim=True)
        ratio_gradient = (g * c).sum(dim=-1, keepdim=True) - s * mean
        # the ratio is 1 / s outside the guard, s / guard^2 inside
        slope = torch.where(s.abs() >= guard, -ratio * ratio, 1 / (guard * guard))
        sum_gradient = ratio_gradient * slope - ratio * mean
        score_gradient = torch.addcmul(sum_gradient, g, ratio) * (1 - c * c)
        lag_gradient = score_gradient.sum(dim=1)
        score_gradient = score_gradient * ctx.scale

        asked_gradient = (score_gradient.unsqueeze(2) @ keys).squeeze(2)
        query_gradient = asked_gradient @ key_weight.mT
        pooled_gradient = torch.zeros_like(pooled)
        keys_gradient = score_gradient.unsqueeze(-1) * asked.unsqueeze(2)
        pooled_gradient[:, :, -order:] = keys_gradient.flip(2)
        pooled_gradient[:, :, -1] += query_gradient @ query_weight
        return (
            pooled_gradient,
            query_gradient.mT @ pooled[:, :, -1],
            query_gradient.sum(dim=1),
            query.mT @ asked_gradient,
            lag_gradient,
            None,
            None,
        )
