"""The layers of DRew: one term for each distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear, Module, ModuleList, Parameter, ReLU, Sequential
from torch_geometric.nn.inits import reset

from torch_grama.baselines.fixed_product import propagate
from torch_grama.nn.engine.adjacency import Adjacency


class _DRewLayer(Module):
    """Called as ``layer(x, delayed, rings)``: the states now, the states that the nodes at distance
    1, 2, ... are heard in, and the pairs at these distances."""

    adds_to_input: ClassVar[bool] = True
    normalizes_rings: ClassVar[bool] = False

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)


class DRewGCNLayer(_DRewLayer):
    r"""The layer of :class:`~torch_grama.baselines.DRewGCN`, without the skip connection.

    Args:
        channels (int): Width of the states.
        num_hops (int): The largest distance.
        batch_norm (bool): Whether to normalise before the activation.
    """

    normalizes_rings = True

    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        # the norm has a bias of its own
        self.lins = ModuleList(
            Linear(channels, channels, bias=not batch_norm and hop == 0) for hop in range(num_hops)
        )
        self.norm = BatchNorm1d(channels) if batch_norm else Identity()

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        r"""Returns the update :math:`(N, F)`."""
        total = torch.zeros_like(x)
        for lin, state, ring in zip(self.lins, delayed, rings, strict=False):
            total = total + lin(propagate(ring, state))
        return F.relu(self.norm(total))


class DRewGINLayer(_DRewLayer):
    r"""The layer of :class:`~torch_grama.baselines.DRewGIN`.

    Args:
        channels (int): Width of the states.
        num_hops (int): The largest distance.
        batch_norm (bool): Whether each MLP normalises.
    """

    adds_to_input = False

    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        self.own_mlp = _mlp(channels, batch_norm)
        self.mlps = ModuleList(_mlp(channels, batch_norm) for _ in range(num_hops))
        self.eps = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        torch.nn.init.zeros_(self.eps)

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        r"""Returns the new states :math:`(N, F)`."""
        total = (1 + self.eps) * self.own_mlp(x)
        for mlp, state, ring in zip(self.mlps, delayed, rings, strict=False):
            total = total + mlp(propagate(ring, state))
        return F.relu(total)


class DRewGatedGCNLayer(_DRewLayer):
    r"""The layer of :class:`~torch_grama.baselines.DRewGatedGCN`, without the skip connection.

    Args:
        channels (int): Width of the states.
        num_hops (int): The largest distance.
        batch_norm (bool): Whether to normalise before the activation.
    """

    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        # A and D; for each distance B and E
        self.own_lin = Linear(channels, 2 * channels)
        self.lins = ModuleList(Linear(channels, 2 * channels) for _ in range(num_hops))
        self.norm = BatchNorm1d(channels) if batch_norm else Identity()

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        r"""Returns the update :math:`(N, F)`."""
        total, receives = self.own_lin(x).chunk(2, dim=-1)
        for lin, state, ring in zip(self.lins, delayed, rings, strict=False):
            # [N, F] -> [P, 2 F]
            message, sends = lin(state)[ring.source].chunk(2, dim=-1)
            gate = (receives[ring.target] + sends).sigmoid()
            both = torch.cat([gate * message, gate], dim=-1)
            both = both.new_zeros(x.size(0), both.size(-1)).index_add(0, ring.target, both)
            gated, weight = both.chunk(2, dim=-1)
            total = total + gated / (weight + 1e-6)
        return F.relu(self.norm(total))


def _mlp(channels: int, batch_norm: bool) -> Sequential:
    norm = BatchNorm1d(channels) if batch_norm else Identity()
    return Sequential(Linear(channels, channels), norm, ReLU())
