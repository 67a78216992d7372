"""Reading the given sequence: pooled for the coefficients, mixed for the recurrence.

Left to autograd, each of the two readings and the newest state would make a gradient as large as
the sequence, and add them up. Here the gradient of the mixing travels on, untouched, as that of a
token; the gradients of the coefficients follow from it; and only then, with everything known, is
the gradient of the sequence written, in one pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.sequence import (
    Activation,
    Groups,
    NodeSequence,
    apply,
    graph_mean,
    handwritten_backward,
    handwritten_gradients_work,
    identity,
)


class Reading:
    r"""A sequence that is read once for its means and once for weighted sums.

    Args:
        sequence (NodeSequence): The sequence; its activation is applied while reading.
        groups (Groups): Which nodes share means and weights.
        pools (bool): Whether the means will be asked for.
        num_sums (int): How many weighted sums will be asked for.

    Attributes:
        pooled_states: Means of the activated states :math:`(B, L, F)`, if asked for.
        pooled_residuals: Means of the activated residuals :math:`(B, L, F)`, if asked for;
            :obj:`None` if they are the forward differences of the states.
        newest: The newest state, activated, :math:`(N, F)`.
    """

    def __init__(self, sequence: NodeSequence, groups: Groups, pools: bool, num_sums: int) -> None:
        self._sequence = sequence
        self._groups = groups
        self._weights: list[Tensor | None] = [None, None]
        self.pooled_states: Tensor
        self.pooled_residuals: Tensor | None
        self.newest: Tensor
        self.pooled_states, pooled_residuals, self.newest, self._token = apply(
            _Enter,
            sequence.states,
            sequence.residuals,
            groups,
            pools,
            num_sums,
            sequence.act,
            self._weights,
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

    def mix(self, state_weights: Tensor, residual_weights: Tensor | None) -> Tensor:
        r"""Returns weighted sums over the sequence :math:`(R, N, F)`; called once.

        Args:
            state_weights (Tensor): Weights of the states :math:`(B, R, L)`.
            residual_weights (Tensor, optional): Weights of the residuals :math:`(B, R, L)`;
                :obj:`None` if they are differences of the states.
        """
        states, residuals = self._sequence.states, self._sequence.residuals
        # sums in the type of the states, and never below float32
        dtype = torch.promote_types(states.dtype, torch.float32)
        state_weights = state_weights.to(dtype)
        residual_weights = None if residual_weights is None else residual_weights.to(dtype)
        # values alone, for the gradient of the sequence
        self._weights[0] = state_weights.detach()
        self._weights[1] = None if residual_weights is None else residual_weights.detach()
        out: Tensor = apply(
            _Mix,
            self._token,
            states.detach(),
            None if residuals is None else residuals.detach(),
            state_weights,
            residual_weights,
            self._groups,
            self._sequence.act,
        )
        return out


class _Enter(torch.autograd.Function):
    r"""``(states, residuals) -> (means of both, newest state, token)``; backward runs last."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        residuals: Tensor | None,
        groups: Groups,
        pools: bool,
        num_sums: int,
        act: Activation,
        weights: list[Tensor | None],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.save_for_backward(states, residuals)
        ctx.groups, ctx.act, ctx.weights = groups, act, weights
        ctx.set_materialize_grads(False)
        pooled = [
            states.new_empty(0, 0, 0)
            if part is None or not pools
            else kernels.pool(part, groups, act)
            for part in (states, residuals)
        ]
        newest = act(states[-1])
        if newest.data_ptr() == states[-1].data_ptr():
            # a tensor of its own, also where the activation returns its input
            newest = newest.clone()
        # shaped like the sums, whose gradient will travel through it, without their memory
        token = states.new_zeros(()).expand(num_sums, *states.shape[1:])
        return pooled[0], pooled[1], newest, token

    @staticmethod
    @handwritten_backward
    def backward(
        ctx: Any,
        states_share: Tensor | None,
        residuals_share: Tensor | None,
        newest_gradient: Tensor | None,
        sums_gradient: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        states, residuals = ctx.saved_tensors
        gradients: list[Tensor | None] = []
        for part, weights, share, newest, needed in (
            (states, ctx.weights[0], states_share, newest_gradient, ctx.needs_input_grad[0]),
            (residuals, ctx.weights[1], residuals_share, None, ctx.needs_input_grad[1]),
        ):
            if part is None or not needed:
                gradients.append(None)
                continue
            gradients.append(
                kernels.sequence_gradient(
                    weights, sums_gradient, share, newest, ctx.groups, part, ctx.act
                )
            )
        return *gradients, None, None, None, None, None


class _Mix(torch.autograd.Function):
    r"""``(token, weights) -> sums``; hands its gradient to :class:`_Enter` through the token."""

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
    ) -> Tensor:
        ctx.save_for_backward(states, residuals)
        ctx.groups, ctx.act = groups, act
        return kernels.combine_both(state_weights, states, residual_weights, residuals, groups, act)

    @staticmethod
    @handwritten_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, residuals = ctx.saved_tensors
        gradient = gradient.contiguous()
        weight_gradients = [
            kernels.gram(gradient, part, ctx.groups, ctx.act) if needed else None
            for part, needed in zip((states, residuals), ctx.needs_input_grad[3:5], strict=True)
        ]
        return gradient, None, None, *weight_gradients, None, None


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
