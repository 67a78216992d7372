"""Both sets of selective coefficients at once, with their gradient written out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.coefficients import NaiveCoefficients, SelectiveCoefficients
from torch_grama.nn.engine.handwritten import apply


def select_jointly(
    ar_coefficients: SelectiveCoefficients | NaiveCoefficients,
    ma_coefficients: SelectiveCoefficients | NaiveCoefficients,
    pooled_states: Tensor,
    pooled_residuals: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Returns the autoregressive and the moving-average coefficients, :math:`(B, p)` and
    :math:`(B, q)`.

    Equal to calling the two modules one after the other. In the common case (selective, of equal
    order, normalised by the sum) both go through the same few operations together: the tensors are
    tiny, and on a fast device it is their number that costs time.
    """
    if not _can_join(ar_coefficients, ma_coefficients):
        return (
            ar_coefficients.from_pooled(pooled_states),
            ma_coefficients.from_pooled(pooled_residuals),
        )
    assert isinstance(ar_coefficients, SelectiveCoefficients)
    assert isinstance(ma_coefficients, SelectiveCoefficients)
    pair = (ar_coefficients, ma_coefficients)
    dtype = ar_coefficients.key_weight.dtype
    with torch.autocast(pooled_states.device.type, enabled=False):
        both: Tensor = apply(
            _JointSelection,
            torch.stack([pooled_states, pooled_residuals]).to(dtype),
            torch.stack([module.query_weight for module in pair]),
            torch.stack([module.query_bias for module in pair]),
            torch.stack([module.key_weight for module in pair]),
            torch.stack([module.lag_bias for module in pair]),
            1 / math.sqrt(ar_coefficients.channels * ar_coefficients.heads),
            ar_coefficients.guard,
        )
    phi, theta = both.unbind(0)
    return phi, theta


def _can_join(
    ar_coefficients: SelectiveCoefficients | NaiveCoefficients,
    ma_coefficients: SelectiveCoefficients | NaiveCoefficients,
) -> bool:
    return (
        isinstance(ar_coefficients, SelectiveCoefficients)
        and isinstance(ma_coefficients, SelectiveCoefficients)
        and ar_coefficients.order == ma_coefficients.order
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
