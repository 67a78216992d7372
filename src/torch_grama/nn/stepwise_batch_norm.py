"""Batch normalisation for a module that is applied several times in a row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter


class StepwiseBatchNorm(Module):
    r"""Batch normalisation with shared scale and shift, and running statistics for each step.

    Inside a recurrence the distribution of the states changes from step to step. One set of
    running statistics would average over the steps and fit none of them, so that a model that
    trains well evaluates badly.

    Args:
        channels (int): Number of channels.
        num_steps (int, optional): Number of steps; later ones use the last. (default: :obj:`1`)
        momentum (float, optional): Weight of the newest batch. (default: :obj:`0.1`)
        eps (float, optional): Added to the variance. (default: :obj:`1e-5`)

    Shapes:
        - **input:** :math:`(N, F)`
        - **output:** :math:`(N, F)`
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, channels: int, num_steps: int = 1, momentum: float = 0.1, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.channels = channels
        self.num_steps = num_steps
        self.momentum = momentum
        self.eps = eps
        self.weight = Parameter(torch.empty(channels))
        self.bias = Parameter(torch.empty(channels))
        self.register_buffer("running_mean", torch.empty(num_steps, channels))
        self.register_buffer("running_var", torch.empty(num_steps, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters and the running statistics."""
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, step: int = 0) -> Tensor:
        r"""Normalises :obj:`x` with the statistics of the given step.

        A batch of fewer than two rows has no variance and uses the running statistics.
        """
        step = min(step, self.num_steps - 1)
        return F.batch_norm(
            x,
            self.running_mean[step],
            self.running_var[step],
            self.weight,
            self.bias,
            training=self.training and x.size(0) > 1,
            momentum=self.momentum,
            eps=self.eps,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_steps={self.num_steps})"
