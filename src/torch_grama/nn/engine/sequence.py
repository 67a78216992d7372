"""What the engines work on: sequences of states, the graphs of a batch, activations, gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

Activation = Callable[[Tensor], Tensor]


def identity(x: Tensor) -> Tensor:
    return x


# Activations without parameters, state or side effects, which an engine may apply wherever it reads
# a sequence, and again for the gradient; beside each, one that writes over its input, if any.
PURE_ACTIVATIONS: dict[Activation, Activation | None] = {
    F.relu: torch.relu_,
    F.elu: lambda x: F.elu(x, inplace=True),
    F.gelu: None,
    F.silu: lambda x: F.silu(x, inplace=True),
    F.tanh: torch.tanh_,
    F.leaky_relu: lambda x: F.leaky_relu(x, inplace=True),
    identity: identity,
}


@dataclass(frozen=True, eq=False)
class Groups:
    r"""Which nodes share coefficients: the graphs of a batch, sorted, or all nodes as one group."""

    batch: Tensor | None = None
    num_graphs: int = 1

    @cached_property
    def starts(self) -> Tensor:
        r"""Where the nodes of each graph start :math:`(B + 1)`."""
        assert self.batch is not None
        graphs = torch.arange(self.num_graphs + 1, device=self.batch.device)
        return torch.searchsorted(self.batch.contiguous(), graphs)

    @cached_property
    def counts(self) -> Tensor:
        r"""Number of nodes of each graph, at least one, :math:`(B, 1, 1)`."""
        return self.starts.diff().clamp_(min=1).view(-1, 1, 1)

    def node_counts(self, num_nodes: int) -> Tensor | int:
        r"""Returns the number of nodes of each group, at least one."""
        return max(num_nodes, 1) if self.batch is None else self.counts

    def cuts(self, num_nodes: int, parts: int, device: torch.device) -> Tensor:
        r"""Returns where each share starts :math:`(B P + 1)`, of :math:`P` shares a graph."""
        if self.batch is None:
            # whole numbers of the device: nothing is copied, however often the size changes
            return torch.arange(parts + 1, device=device) * num_nodes // parts
        if parts == 1:
            return self.starts
        if parts not in self._cuts:
            share = torch.arange(parts, device=device)
            sizes = self.starts.diff()
            cuts = self.starts[:-1, None] + sizes[:, None] * share // parts
            self._cuts[parts] = torch.cat([cuts.flatten(), self.starts[-1:]])
        return self._cuts[parts]

    @cached_property
    def _cuts(self) -> dict[int, Tensor]:
        return {}


@dataclass(frozen=True, eq=False)
class NodeSequence:
    r"""States and residuals :math:`(L, N, F)` on their way from block to block, oldest first, with
    an activation that is still to be applied.

    An engine that can apply the activation while it reads the sequence never stores the result;
    the others call :meth:`materialize`. Without residuals, these are the forward differences of the
    (activated) states, the last one being zero.
    """

    states: Tensor
    residuals: Tensor | None
    act: Activation = identity

    @classmethod
    def activated(cls, states: Tensor, residuals: Tensor | None, act: Activation) -> NodeSequence:
        r"""Takes tensors that nobody else refers to, and activates them now or later."""
        if act not in PURE_ACTIVATIONS:
            # once, and on copies: it may hold parameters, keep state or write over its input,
            # which the engine that made the tensors still needs
            return cls(act(states.clone()), None if residuals is None else act(residuals.clone()))
        in_place = PURE_ACTIVATIONS[act]
        if (
            states.device.type != "cpu"
            or in_place is None
            or torch.is_grad_enabled()
            or not handwritten_gradients_work()
        ):
            return cls(states, residuals, act)
        # no gradient will ask for what they were before, and the caches of a CPU do not hold the
        # sequence until its readers come, of which there are several
        return cls(in_place(states), None if residuals is None else in_place(residuals))

    def materialize(self) -> tuple[Tensor, Tensor]:
        states = self.act(self.states)
        if self.residuals is None:
            return states, forward_differences(states)
        return states, self.act(self.residuals)


def forward_differences(states: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{f}^{(k+1)} - \mathbf{f}^{(k)}`, and zero at the last position."""
    return torch.cat([states[1:] - states[:-1], torch.zeros_like(states[:1])])


def count_graphs(batch: Tensor | None, batch_size: int | None = None) -> int:
    r"""Returns the number of graphs; reading it off the batch vector waits for the device."""
    if batch_size is not None:
        return batch_size
    if batch is None:
        return 1
    return int(batch[-1]) + 1 if batch.numel() > 0 else 0


def graph_mean(
    sequence: Tensor, batch: Tensor | None = None, batch_size: int | None = None
) -> Tensor:
    r"""Averages a sequence over the nodes of each graph.

    Args:
        sequence (Tensor): The sequence :math:`(L, N, F)`.
        batch (Tensor, optional): The graph of each node :math:`(N)`, sorted.
            (default: :obj:`None`, one graph)
        batch_size (int, optional): The number of graphs :math:`B`. (default: :obj:`None`)

    Returns:
        The means :math:`(B, L, F)`; zero for a graph without nodes.
    """
    length, num_nodes, channels = sequence.size()
    # in half precision a sum of ones already stops growing at 256
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    if batch is None:
        mean = sequence.sum(dim=1, dtype=dtype).unsqueeze(0) / max(num_nodes, 1)
        return mean.to(sequence.dtype)
    num_graphs = count_graphs(batch, batch_size)
    ones = sequence.new_ones(num_nodes, dtype=dtype)
    count = ones.new_zeros(num_graphs).index_add_(0, batch, ones)
    # [L, N, F] -> [L, B, F] -> [B, L, F]
    total = ones.new_zeros(length, num_graphs, channels).index_add_(1, batch, sequence.to(dtype))
    mean = total / count.clamp(min=1).unsqueeze(-1)
    return mean.transpose(0, 1).to(sequence.dtype)


def apply(function: type[Function], *arguments: object) -> Any:
    return function.apply(*arguments)


def handwritten_gradients_work() -> bool:
    r"""Whether hand-written autograd functions may be used: not while the model is compiled or
    exported, nor under function transforms or forward-mode differentiation.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def handwritten_backward(backward: Callable[..., Any]) -> Callable[..., Any]:
    r"""Marks the backward pass of a hand-written function: it computes in the types that it is
    given, whatever autocast says, and a second differentiation raises.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Tensor | None) -> Any:
        device = next((g.device.type for g in gradients if g is not None), "cpu")
        sources = []
        if torch.is_grad_enabled():
            # the graph of the gradients is kept: whatever leads into it must end in the error
            given = (*gradients, *ctx.saved_tensors)
            sources = [t for t in given if t is not None and t.requires_grad]
        with torch.no_grad():
            if torch.is_autocast_enabled(device):
                with torch.autocast(device, enabled=False):
                    results = backward(ctx, *gradients)
            else:
                results = backward(ctx, *gradients)
        if not sources:
            return results
        made = [r for r in results if r is not None]
        marked = iter(apply(_NoSecondDerivative, len(made), *made, *sources))
        return tuple(None if r is None else next(marked) for r in results)

    return once


class _NoSecondDerivative(Function):
    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise RuntimeError(
            "Expected a single differentiation: the fast engines have no second derivatives; build "
            "the model with running=Running(engine='reference'), or call arma_recurrence(..., "
            "engine='reference')"
        )


def index_table(build: Callable[..., list[int]], device: torch.device, *sizes: int) -> Tensor:
    r"""Returns the indices that :obj:`build` lists, kept between calls, so that a forward pass
    copies nothing to the device; a compiler sees a plain constant.
    """
    if torch.compiler.is_compiling():
        return torch.tensor(build(*sizes), device=device)
    return _kept(build, device, *sizes)


# without a limit: a recorded step goes on reading the tables that it found
@cache
def _kept(build: Callable[..., list[int]], device: torch.device, *sizes: int) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(build(*sizes), device=device)
