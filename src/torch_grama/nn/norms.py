"""Norms of states: between blocks, and inside a backbone that is applied several times."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm, Module, ModuleList, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import choose
from torch_grama.nn.engine.batch_norm import batch_norm
from torch_grama.nn.padding import current_padding

NormLike = str | Callable[[int], Module] | None

NORMS: dict[str, Callable[[int], Module]] = {"batch_norm": BatchNorm1d, "layer_norm": LayerNorm}


def build_norm(norm: NormLike, channels: int) -> Module | None:
    r"""Makes a norm from a name, a callable channels -> module, or :obj:`None`."""
    if norm is None:
        return None
    if isinstance(norm, str):
        return choose("norm", norm, NORMS)(channels)
    if not callable(norm):
        raise TypeError(
            f"Expected 'norm' to be a name, a callable channels -> module or None "
            f"(got {type(norm).__name__})"
        )
    module = norm(channels)
    if not isinstance(module, Module):
        raise TypeError(f"Expected 'norm' to make a torch.nn.Module (got {type(module).__name__})")
    return module


class SequenceNorm(Module):
    r"""The norm of a sequence of states :math:`(L, N, F)` between blocks.

    Every position is normed by itself, since states differ from position to position: a norm with
    running statistics has those of each position. A norm whose ``forward`` takes ``batch``, as
    PyG's do, is given the batch vector, so that graphs of a batch do not mix.
    """

    def __init__(self, norm: str | Callable[[int], Module], channels: int, num_positions: int):
        super().__init__()
        self.num_positions = num_positions
        if norm == "batch_norm":
            self.norms = ModuleList([StepwiseBatchNorm(channels, num_positions)])
            return
        first = build_norm(norm, channels)
        assert first is not None
        self.norms = ModuleList([first])
        while any(True for _ in first.buffers()) and len(self.norms) < num_positions:
            self.norms.append(copy.deepcopy(first))

    def reset_parameters(self) -> None:
        for norm in self.norms:
            reset(norm)

    def forward(
        self, states: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        first = self.norms[0]
        if isinstance(first, LayerNorm):
            out: Tensor = first(states)
            return out
        if isinstance(first, StepwiseBatchNorm):
            return torch.stack([first(state, step) for step, state in enumerate(states)])
        last = len(self.norms) - 1
        return torch.stack(
            [
                normalize(self.norms[min(position, last)], state, batch, batch_size)
                for position, state in enumerate(states)
            ]
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.norms[0]).__name__}, {self.num_positions})"


def normalize(
    norm: Module, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
) -> Tensor:
    r"""Applies a norm to node states :math:`(N, F)`; one that takes the batch vector is given it.

    A batch norm of fewer than two rows, which has no variance, uses its running statistics.
    """
    if isinstance(norm, BatchNorm1d) and x.size(0) < 2 and norm.track_running_stats:
        mean, variance = norm.running_mean, norm.running_var
        return F.batch_norm(x, mean, variance, norm.weight, norm.bias, eps=norm.eps)
    # reading a signature takes half as long as a norm: not for those that every layer has
    plain = type(norm) in (BatchNorm1d, LayerNorm)
    taken = {} if plain else inspect.signature(norm.forward).parameters
    if "batch" in taken:
        keywords = {"batch_size": batch_size} if "batch_size" in taken else {}
        normed: Tensor = norm(x, batch, **keywords)
        return normed
    out: Tensor = norm(x)
    return out


class StepwiseBatchNorm(Module):
    r"""Batch normalisation with shared scale and shift, and running statistics for each step.

    Inside a recurrence the distribution of the states changes from step to step. One set of
    running statistics would average over the steps and fit none of them, so that a model that
    trains well evaluates badly. Steps after the last use its statistics.
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
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x: Tensor, step: int = 0, onto: Tensor | None = None) -> Tensor:
        r"""A batch of fewer than two rows has no variance and uses the running statistics. With
        :obj:`onto`, the positive part of the result is added to it.
        """
        step = min(step, self.num_steps - 1)
        mean, variance = self.running_mean[step], self.running_var[step]
        if self.training and x.size(0) > 1:
            padding = current_padding()
            count = None if padding is None else padding.real_rows(x.size(0))
            settings = self.momentum, self.eps
            return batch_norm(x, mean, variance, self.weight, self.bias, *settings, count, onto)
        out = F.batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)
        return out if onto is None else onto + F.relu(out)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_steps={self.num_steps})"
