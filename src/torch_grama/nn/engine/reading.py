"""Reading the given sequence: pooled for the coefficients, mixed for the recurrence.

Left to autograd, each of the two readings and the newest state would make a gradient as large as
the sequence, and add them up. Here the two are one: on the way back, the mixing comes first and
leaves what it was sent; the gradients of the coefficients follow from it; and only then, with
everything known, is the gradient of the sequence written, in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.activation import Activation
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.handwritten import apply
from torch_grama.nn.node_sequence import NodeSequence


class Reading:
    r"""A sequence that is read once for its means and once for weighted sums.

    Args:
        sequence (NodeSequence): The sequence; its activation is applied while reading.
        groups (Groups): Which nodes share means and weights.
        pools (bool): Whether the means will be asked for.
        overwrites (bool): Whether the gradient may take the place of the sequence, which then must
            not be needed by anyone else.

    Attributes:
        pooled_states: Means of the activated states :math:`(B, L, F)`, if asked for.
        pooled_residuals: Means of the activated residuals :math:`(B, L, F)`, if asked for;
            :obj:`None` if they are the forward differences of the states.
    """

    pooled_states: Tensor
    pooled_residuals: Tensor | None

    def __init__(
        self,
        sequence: NodeSequence,
        groups: Groups,
        pools: bool,
        overwrites: bool = False,
    ) -> None:
        self._sequence = sequence
        self._groups = groups
        self._message = _Message()
        self.pooled_states, pooled_residuals, self._token = apply(
            _Enter,
            sequence.states,
            sequence.residuals,
            groups,
            pools,
            sequence.act,
            overwrites,
            self._message,
        )
        self.pooled_residuals = None if sequence.residuals is None else pooled_residuals

    @property
    def reads_differences(self) -> bool:
        r"""Whether the residuals are the forward differences of the states."""
        return self._sequence.residuals is None

    @property
    def seq_len(self) -> int:
        r"""Length :math:`L` of the sequence."""
        return self._sequence.states.size(0)

    def mix(self, state_weights: Tensor, residual_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        r"""Returns sums over the sequence :math:`(R, N, F)`, and the newest state :math:`(N, F)`.

        Args:
            state_weights (Tensor): Weights of the states :math:`(B, R, L)`.
            residual_weights (Tensor, optional): Weights of the residuals :math:`(B, R, L)`;
                :obj:`None` if they are differences of the states.
        """
        states, residuals = self._sequence.states, self._sequence.residuals
        # sums in the type of the states, and never below float32
        dtype = torch.promote_types(states.dtype, torch.float32)
        out: tuple[Tensor, Tensor] = apply(
            _Mix,
            self._token,
            states.detach(),
            None if residuals is None else residuals.detach(),
            state_weights.to(dtype),
            None if residual_weights is None else residual_weights.to(dtype),
            self._groups,
            self._sequence.act,
            self._message,
        )
        return out


@dataclass
class _Message:
    r"""What the mixing leaves for the gradient of the sequence."""

    gradient: Tensor | None = None
    newest_gradient: Tensor | None = None
    state_weights: Tensor | None = None
    residual_weights: Tensor | None = None
    spent: bool = False

    def clear(self) -> None:
        self.gradient = self.newest_gradient = None
        self.state_weights = self.residual_weights = None


class _Enter(torch.autograd.Function):
    r"""``(states, residuals) -> (means of both, token)``; backward runs last."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        groups: Groups,
        pools: bool,
        act: Activation,
        overwrites: bool,
        message: _Message,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(states, residuals)
        ctx.groups, ctx.act = groups, act
        ctx.overwrites, ctx.message = overwrites, message
        ctx.set_materialize_grads(False)
        pooled = [
            states.new_empty(0, 0, 0)
            if part is None or not pools
            else kernels.pool(part, groups, act)
            for part in (states, residuals)
        ]
        # the token's value is never read
        return pooled[0], pooled[1], states.new_empty(())

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, states_share: Tensor | None, residuals_share: Tensor | None, token: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        states, residuals = ctx.saved_tensors
        groups, act, message = ctx.groups, ctx.act, ctx.message
        newest = message.newest_gradient
        grads: list[Tensor | None] = []
        for part, weights, share, last, needed in (
            (states, message.state_weights, states_share, newest, ctx.needs_input_grad[0]),
            (residuals, message.residual_weights, residuals_share, None, ctx.needs_input_grad[1]),
        ):
            if part is None or not needed:
                grads.append(None)
                continue
            grads.append(
                kernels.sequence_gradient(
                    weights,
                    message.gradient,
                    share,
                    last,
                    groups,
                    part,
                    act,
                    out=part if ctx.overwrites else None,
                )
            )
        message.clear()
        message.spent = ctx.overwrites
        return *grads, None, None, None, None, None


@lru_cache(maxsize=16)
def _zero(device: torch.device, dtype: torch.dtype) -> Tensor:
    # the token's gradient: no launch for it
    with torch.inference_mode(False):
        return torch.zeros((), device=device, dtype=dtype)


class _Mix(torch.autograd.Function):
    r"""``(token, weights) -> (sums, newest state)``; leaves its gradient for :class:`_Enter`."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        states: Tensor,
        residuals: Tensor | None,
        state_weights: Tensor,
        residual_weights: Tensor | None,
        groups: Groups,
        act: Activation,
        message: _Message,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(states, residuals, state_weights, residual_weights)
        ctx.groups, ctx.act, ctx.message = groups, act, message
        ctx.set_materialize_grads(False)
        mixed = kernels.combine_both(
            state_weights, states, residual_weights, residuals, groups, act
        )
        newest = act(states[-1])
        # a tensor of its own, also where the activation returns its input
        owned = newest.data_ptr() != states[-1].data_ptr()
        return mixed, newest if owned else newest.clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor | None, newest_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        # before the saved tensors, about which torch would complain in its own words
        if ctx.message.spent:
            raise RuntimeError(
                "Expected a single backward pass through a model with checkpoint_blocks=True, "
                "whose gradients take the place of its states (got a second one); run the forward "
                "pass again, or build the model with checkpoint_blocks=False"
            )
        states, residuals, state_weights, residual_weights = ctx.saved_tensors
        groups, act, message = ctx.groups, ctx.act, ctx.message
        grads: list[Tensor | None] = [None] * 8
        if gradient is not None:
            gradient = gradient.contiguous()
            if ctx.needs_input_grad[3]:
                grads[3] = kernels.gram(gradient, states, groups, act)
            if ctx.needs_input_grad[4]:
                grads[4] = kernels.gram(gradient, residuals, groups, act)
        if ctx.needs_input_grad[0]:
            message.gradient, message.newest_gradient = gradient, newest_gradient
            message.state_weights, message.residual_weights = state_weights, residual_weights
            grads[0] = _zero(states.device, states.dtype)
        return tuple(grads)
