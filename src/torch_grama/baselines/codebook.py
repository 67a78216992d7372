"""Cluster centres that follow the data as a moving average."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.nn.arguments import check_positive


class Codebook(Module):
    r"""Online k-means with exponential moving averages, as in `"Neural Discrete Representation
    Learning" <https://arxiv.org/abs/1711.00937>`_, appendix A:

    .. math::
        c(i) = \arg\min_k \Vert \bar{\mathbf{x}}_i - \boldsymbol{\mu}_k \Vert, \qquad
        n_k \leftarrow \lambda n_k + (1 - \lambda) \, |c^{-1}(k)|, \qquad
        \mathbf{m}_k \leftarrow \lambda \mathbf{m}_k + (1 - \lambda) \sum_{c(i) = k}
        \bar{\mathbf{x}}_i, \qquad \boldsymbol{\mu}_k = \mathbf{m}_k / n_k,

    where :math:`\bar{\mathbf{x}}` is :math:`\mathbf{x}` normalised channel by channel, with the
    statistics of the batch in an update and with running ones otherwise.

    .. note::
        The counts :math:`n` start at one, so that a centre that no point has yet chosen stays
        where it is.

    Args:
        num_centroids (int): Number of centres.
        channels (int): Width of the points.
        decay (float, optional): Decay :math:`\lambda` of the averages. (default: :obj:`0.99`)
        momentum (float, optional): Weight of the newest batch in the running statistics.
            (default: :obj:`0.1`)
    """

    centroids: Tensor
    counts: Tensor
    totals: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_centroids: int, channels: int, decay: float = 0.99, momentum: float = 0.1
    ) -> None:
        super().__init__()
        check_positive(num_centroids=num_centroids, channels=channels)
        if not 0 <= decay < 1:
            raise ValueError(f"Expected 'decay' to be at least 0 and below 1 (got {decay})")
        self.decay = decay
        self.momentum = momentum
        self.epsilon = 1e-5
        self.register_buffer("centroids", torch.empty(num_centroids, channels))
        self.register_buffer("counts", torch.empty(num_centroids))
        self.register_buffer("totals", torch.empty(num_centroids, channels))
        self.register_buffer("running_mean", torch.empty(channels))
        self.register_buffer("running_var", torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws the centres anew and forgets all statistics."""
        torch.nn.init.normal_(self.centroids)
        self.totals.copy_(self.centroids)
        self.counts.fill_(1)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    @torch.no_grad()
    def assign(self, x: Tensor) -> Tensor:
        r"""Returns the nearest centre of each point :math:`(N)`."""
        return self._nearest(self._normalize(x, self.running_mean, self.running_var))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        r"""Moves the centres towards the points :math:`(N, F)` that chose them."""
        if x.size(0) < 2:  # no variance
            return
        x = x.to(self.centroids.dtype)
        mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
        unbiased = var * x.size(0) / (x.size(0) - 1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)
        points = self._normalize(x, mean, var)
        nearest = self._nearest(points)
        counts = torch.zeros_like(self.counts).index_add_(0, nearest, torch.ones_like(points[:, 0]))
        totals = torch.zeros_like(self.totals).index_add_(0, nearest, points)
        self.counts.lerp_(counts, 1 - self.decay)
        self.totals.lerp_(totals, 1 - self.decay)
        # both averages of a centre that nobody chooses vanish in the end; it stays where it was
        moved = self.totals / self.counts.clamp(min=self.epsilon).unsqueeze(-1)
        is_used = (self.counts > self.epsilon).unsqueeze(-1)
        self.centroids.copy_(torch.where(is_used, moved, self.centroids))

    def decode(self) -> Tensor:
        r"""Returns the centres on the scale of the points :math:`(K, F)`."""
        return self.centroids * (self.running_var + self.epsilon).sqrt() + self.running_mean

    def _normalize(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return (x - mean) * torch.rsqrt(var + self.epsilon)

    def _nearest(self, points: Tensor) -> Tensor:
        # the square of the point is the same for all centres
        distance = self.centroids.square().sum(dim=-1) - 2 * points @ self.centroids.t()
        return distance.argmin(dim=-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.centroids.size(0)}, {self.centroids.size(1)})"
