"""Scans over the nodes of each graph, in an order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.node_noise import node_noise
from torch_grama.nn.arguments import check_positive


def _by_degree(view: BatchView, noise: Tensor) -> Tensor:
    return view.degrees() + noise


def _at_random(view: BatchView, noise: Tensor) -> Tensor:
    return noise


ORDERS: dict[str, Callable[[BatchView, Tensor], Tensor]] = {
    "degree": _by_degree,
    "random": _at_random,
}


class NodeScan(Module):
    r"""A :class:`MambaBlock` over the nodes of each graph, sorted by a key with noise:

    .. math::
        \mathbf{u} = \frac{1}{R} \sum_{r=1}^R \pi_r^{-1} \left( \mathrm{Mamba}(\pi_r(\mathbf{x}))
        \right), \qquad \pi_r = \mathrm{argsort}_i (\deg(i) + \epsilon_{r,i}), \quad
        \epsilon_{r,i} \in [0, 1),

    with one order (:math:`R = 1`) in training.

    Args:
        block (Module): The state-space model, from :math:`(B, T, F)` to the same.
        key (callable): Gives the key to sort by from the batch and the noise.
        num_orders (int): Number of orders :math:`R` to average at test time.
    """

    def __init__(
        self, block: Module, key: Callable[[BatchView, Tensor], Tensor], num_orders: int
    ) -> None:
        super().__init__()
        check_positive(num_orders=num_orders)
        self.block = block
        self.key = key
        self.num_orders = num_orders

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Returns what each node reads from the nodes before it."""
        count = 1 if self.training else self.num_orders
        # single precision would let a large degree swallow the noise
        noise = node_noise(view.place, count, self.training, torch.float64)
        scans = []
        for column in noise.unbind(dim=1):
            order = view.sort_nodes(self.key(view, column))
            scanned = view.unpack(self.block(view.pack(x[order])))
            scans.append(torch.empty_like(scanned).index_copy(0, order, scanned))
        return torch.stack(scans).mean(dim=0)


class StoredScan(Module):
    r"""A state-space model over the nodes of each graph in the order in which they are stored.

    Args:
        block (Module): The state-space model, from :math:`(B, T, F)` to the same.
    """

    def __init__(self, block: Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Returns what each node reads from the nodes before it."""
        return view.unpack(self.block(view.pack(x)))
