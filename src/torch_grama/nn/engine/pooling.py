"""The mean over the nodes of each graph, for readouts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_grama.nn.activation import identity
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.handwritten import apply, handwritten_gradients_work
from torch_grama.nn.graph_mean import graph_mean


def mean_of_graphs(x: Tensor, groups: Groups) -> Tensor:
    r"""Averages node states :math:`(N, F)` over each graph, :math:`(B, F)`.

    Equal to :func:`graph_mean`; on a device, one launch in place of half a dozen.
    """
    if groups.batch is not None and handwritten_gradients_work() and kernels.runs_on_device(x):
        out: Tensor = apply(_Mean, x.contiguous(), groups)
        return out
    return graph_mean(x.unsqueeze(0), groups.batch, groups.num_graphs).squeeze(1)


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        ctx.groups = groups
        return kernels.pool(x.unsqueeze(0), groups, identity).squeeze(1).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        groups: Groups = ctx.groups
        assert groups.batch is not None
        # plain operations: differentiable again
        share = gradient / groups.counts.view(-1, 1)
        return share.index_select(0, groups.batch), None
