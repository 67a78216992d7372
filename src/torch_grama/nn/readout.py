"""From the last states of nodes to the output: pooling over graphs, then an MLP."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

from torch_grama.nn.arguments import Activation, check_positive, choose
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.sequence import (
    Groups,
    apply,
    count_graphs,
    graph_mean,
    handwritten_gradients_work,
    identity,
)

LEVELS = {"node": "one output per node", "graph": "one output per graph"}


@dataclass(frozen=True)
class Readout:
    r"""How a model turns the last states into its output.

    Args:
        level (str, optional): One output per ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        pooling (str, optional): What a graph takes of its nodes: ``"mean"``, ``"sum"``, ``"max"``,
            or all three side by side as ``"sum-max-mean"``. (default: :obj:`"mean"`)
        num_layers (int, optional): Linear layers of the MLP. (default: :obj:`2`)

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> model = GRAMA(7, 32, 2, readout=Readout("graph", pooling="sum"))
    """

    level: str = "node"
    pooling: str = "mean"
    num_layers: int = 2

    def __post_init__(self) -> None:
        choose("readout.level", self.level, LEVELS)
        choose("readout.pooling", self.pooling, POOLINGS)
        check_positive(num_layers=self.num_layers)
        if self.pooling != "mean" and self.level != "graph":
            raise ValueError(
                f"Expected 'pooling' only with level='graph' (got pooling={self.pooling!r}, "
                f"level={self.level!r})"
            )

    @classmethod
    def of(cls, given: str | Readout) -> Readout:
        r"""Returns what was given, or what the name of a level stands for."""
        return given if isinstance(given, Readout) else cls(given)


class ReadoutMLP(Module):
    r"""Linear layers with activation and dropout between them; ReLU where no activation is wanted,
    since all layers would be one linear map.
    """

    def __init__(
        self, channels: int, out_channels: int, num_layers: int, act: Activation, dropout: float
    ) -> None:
        super().__init__()
        check_positive(readout_layers=num_layers)
        widths = [channels] * num_layers + [out_channels]
        self.layers = ModuleList([Linear(*pair) for pair in pairwise(widths)])
        self.act = F.relu if act is identity else act
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        reset(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.dropout(self.act(layer(x)))
        out: Tensor = self.layers[-1](x)
        return out

    def __repr__(self) -> str:
        first, last = self.layers[0], self.layers[-1]
        return f"{type(self).__name__}({first.in_features}, {last.out_features})"


# Each word and what it concatenates.
POOLINGS: dict[str, tuple[str, ...]] = {
    "mean": ("mean",),
    "sum": ("sum",),
    "max": ("max",),
    "sum-max-mean": ("sum", "max", "mean"),
}


def pooled_channels(channels: int, pooling: str) -> int:
    return channels * len(choose("pooling", pooling, POOLINGS))


def pool_graphs(
    x: Tensor, batch: Tensor | None = None, batch_size: int | None = None, pooling: str = "mean"
) -> Tensor:
    r"""Pools the nodes of each graph, :math:`(B, F)` or :math:`(B, 3 F)`; zero for no nodes."""
    parts = [_pool(x, batch, batch_size, part) for part in choose("pooling", pooling, POOLINGS)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _pool(x: Tensor, batch: Tensor | None, batch_size: int | None, part: str) -> Tensor:
    if part == "mean":
        return graph_mean(x.unsqueeze(0), batch, batch_size).squeeze(1)
    if batch is None:
        if part == "sum":
            return x.sum(dim=0, keepdim=True)
        return x.amax(dim=0, keepdim=True) if x.size(0) else x.new_zeros(1, x.size(1))
    # as in the mean; the gradient of a maximum counts the nodes that share it
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    num_graphs = count_graphs(batch, batch_size)
    return scatter(wide, batch, dim=0, dim_size=num_graphs, reduce=part).to(x.dtype)


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
