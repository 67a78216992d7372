"""One linear layer for each position of a sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_grama.nn.engine import host_memory
from torch_grama.nn.engine.handwritten import apply, handwritten_gradients_work


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{x}_k \mathbf{W}_k + \mathbf{b}_k`, :math:`(L, N, F)`.

    Equal to :func:`torch.baddbmm`; on a CPU, the result lies in memory that is used again.

    Args:
        x (Tensor): The input :math:`(L, N, C)`.
        weight (Tensor): Weights :math:`(L, C, F)`.
        bias (Tensor): Biases :math:`(L, 1, F)`.
    """
    if (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == bias.dtype
        and handwritten_gradients_work()
        and not torch.is_autocast_enabled("cpu")
    ):
        out: Tensor = apply(_BatchedLinear, x, weight, bias)
        return out
    return torch.baddbmm(bias, x, weight)


class _BatchedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = host_memory.new_empty(x, *x.shape[:2], weight.size(2))
        return torch.baddbmm(bias, x, weight, out=out)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # plain operations: differentiable again
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            gradient @ weight.mT if needs_x else None,
            x.mT @ gradient if needs_weight else None,
            gradient.sum(dim=1, keepdim=True) if needs_bias else None,
        )
