"""Selective coefficients on the device: one launch forward, one backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.engine import kernels


class DeviceSelection(torch.autograd.Function):
    r"""``(pooled states, pooled residuals, weights of both sets, scale, guard) -> (phi, theta)``.

    Pooled sequences are :math:`(B, L, F)`; without residuals, these are the forward differences of
    the states. The weights of a set are those of the query, its bias, those of the keys, and the
    bias of each lag.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        ar_query: Tensor,
        ar_query_bias: Tensor,
        ar_key: Tensor,
        ar_lag_bias: Tensor,
        ma_query: Tensor,
        ma_query_bias: Tensor,
        ma_key: Tensor,
        ma_lag_bias: Tensor,
        scale: float,
        guard: float,
    ) -> tuple[Tensor, Tensor]:
        fast = kernels.coefficient_kernels(states)
        assert fast is not None
        ar = fast.Selection(ar_query, ar_query_bias, ar_key, ar_lag_bias)
        ma = fast.Selection(ma_query, ma_query_bias, ma_key, ma_lag_bias)
        coefficients, scores, vectors = fast.select(states, residuals, ar, ma, scale, guard)
        ctx.save_for_backward(states, residuals, *ar, *ma, scores, vectors)
        ctx.fast, ctx.scale, ctx.guard = fast, scale, guard
        return coefficients[0], coefficients[1]

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, phi_gradient: Tensor, theta_gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        states, residuals, *parameters, scores, vectors = ctx.saved_tensors
        ar, ma = ctx.fast.Selection(*parameters[:4]), ctx.fast.Selection(*parameters[4:])
        sequences, small = ctx.fast.select_backward(
            phi_gradient.contiguous(),
            theta_gradient.contiguous(),
            scores,
            vectors,
            states,
            residuals,
            ar,
            ma,
            ctx.scale,
            ctx.guard,
        )
        width = states.size(-1)
        # [2, F, B] x [2, B, F]
        query = small[..., :width].mT @ vectors[:, 0]
        key = vectors[:, 1].mT @ small[..., width : 2 * width]
        # the biases of the query and of the lags lie at both ends
        biases = small.sum(dim=1) if small.size(1) != 1 else small.squeeze(1)
        pooled: tuple[Tensor | None, ...] = (sequences[0], sequences[1])
        if residuals is None:
            pooled = (sequences[0] + sequences[1], None)
        parts = [(query[i], biases[i, :width], key[i], biases[i, 2 * width :]) for i in (0, 1)]
        return *pooled, *parts[0], *parts[1], None, None
