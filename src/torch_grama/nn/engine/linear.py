"""The linear engine: backbones of the form A f W + f W_root + b, forward and backward by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.engine.toeplitz import sum_diagonals


class LinearScan(torch.autograd.Function):
    r"""All steps of a block with a linear backbone.

    ``(mixed, newest, response, weight, root_weight, bias) -> (states, residuals)``, as
    :func:`~torch_grama.nn.engine.scan.scan` computes them. The states take the place of ``mixed``.
    With ``overwrites`` the gradients are written over the incoming ones, which is allowed when
    these come from another engine's function and nobody else can see them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        newest: Tensor,
        response: Tensor,
        weight: Tensor,
        root_weight: Tensor | None,
        bias: Tensor | None,
        adjacency: Adjacency,
        groups: Groups,
        overwrites: bool,
    ) -> tuple[Tensor, Tensor]:
        states, residuals = mixed, torch.empty_like(mixed)
        ctx.mark_dirty(mixed)
        state = newest
        for step in range(states.size(0)):
            kernels.linear_step(
                states,
                residuals,
                step,
                response,
                adjacency,
                state,
                weight,
                root_weight,
                bias,
                groups,
            )
            state = states[step]
        ctx.save_for_backward(states, residuals, newest, response, weight, root_weight, bias)
        ctx.adjacency, ctx.groups, ctx.overwrites = adjacency, groups, overwrites
        ctx.set_materialize_grads(False)
        return states, residuals

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, states_gradient: Tensor | None, residuals_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        states, residuals, newest, response, weight, root_weight, bias = ctx.saved_tensors
        adjacency: Adjacency = ctx.adjacency
        groups: Groups = ctx.groups
        if states_gradient is None:
            states_gradient = torch.zeros_like(states)
        elif not (ctx.overwrites and states_gradient.is_contiguous()):
            states_gradient = states_gradient.clone(memory_format=torch.contiguous_format)
        sums = states.new_empty(states.size(0), states.size(2), dtype=response.dtype)
        accumulate = _WeightGradients(weight, root_weight)
        for step in reversed(range(states.size(0))):
            # gradient of residual `step`: its own, plus what all states from here on pass back
            own = None if residuals_gradient is None else residuals_gradient[step]
            if ctx.overwrites and own is not None and own.is_contiguous():
                gradient = own
            else:
                gradient = torch.empty_like(states[step])
            kernels.add_combination(
                gradient,
                own,
                response[:, : states.size(0) - step],
                states_gradient[step:],
                groups,
            )
            state = newest if step == 0 else states[step - 1]
            passed = accumulate.add(adjacency, gradient, state)
            if bias is not None:
                torch.sum(gradient, dim=0, dtype=sums.dtype, out=sums[step])
            if step == 0:
                newest_gradient = accumulate.state_gradient(passed, gradient)
            else:
                accumulate.add_state_gradient(states_gradient[step - 1], passed, gradient)
        response_gradient = None
        if ctx.needs_input_grad[2]:
            products = kernels.gram(states_gradient, residuals, groups)
            response_gradient = sum_diagonals(products).to(response.dtype)
        return (
            states_gradient,
            newest_gradient,
            response_gradient,
            *accumulate.results(),
            None if bias is None else sums.sum(dim=0).to(bias.dtype),
            None,
            None,
            None,
        )


class HornerScan(torch.autograd.Function):
    r"""The last state of a block with a linear backbone, by Horner's rule.

    ``(terms, offset, weight, root_weight) -> state`` with
    :math:`\mathbf{y}_m = \mathbf{T} \mathbf{y}_{m+1} + \mathbf{c}_m + \mathbf{o}_m` for
    :math:`m = R - 1, \ldots, 0`, starting from :math:`\mathbf{c}_R`. The partial results take the
    place of the terms :math:`\mathbf{c}`, ``[R + 1, N, F]``; the offsets :math:`\mathbf{o}`,
    ``[B, R, F]``, carry the bias. With ``overwrites`` the gradients take the place of the partial
    results in turn.
    """

    @staticmethod
    def forward(
        ctx: Any,
        terms: Tensor,
        offset: Tensor | None,
        weight: Tensor,
        root_weight: Tensor | None,
        adjacency: Adjacency,
        groups: Groups,
        overwrites: bool,
    ) -> Tensor:
        for level in reversed(range(terms.size(0) - 1)):
            constant = None if offset is None else offset[:, level]
            kernels.horner_step(terms, level, adjacency, weight, root_weight, constant, groups)
        ctx.save_for_backward(terms, weight, root_weight)
        ctx.adjacency, ctx.groups, ctx.overwrites = adjacency, groups, overwrites
        return terms[0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        partial, weight, root_weight = ctx.saved_tensors
        adjacency: Adjacency = ctx.adjacency
        # the partial result of a level is read once, before the gradient of that level is written
        gradients = partial if ctx.overwrites else torch.empty_like(partial)
        gradients[0] = gradient
        accumulate = _WeightGradients(weight, root_weight)
        for level in range(partial.size(0) - 1):
            passed = accumulate.add(adjacency, gradients[level], partial[level + 1])
            accumulate.state_gradient(passed, gradients[level], out=gradients[level + 1])
        offset_gradient = None
        if ctx.needs_input_grad[1]:
            offset_gradient = kernels.sum_per_graph(gradients[:-1], ctx.groups)
        weight_gradient, root_gradient = accumulate.results()
        return gradients, offset_gradient, weight_gradient, root_gradient, None, None, None


class _WeightGradients:
    r"""Gradients of a linear backbone, added up over the steps in float32 or better."""

    def __init__(self, weight: Tensor, root_weight: Tensor | None) -> None:
        self._weight_matrix, self._root_matrix = weight, root_weight
        self._weight = torch.zeros_like(weight, memory_format=torch.contiguous_format)
        self._root = None if root_weight is None else torch.zeros_like(root_weight)

    def add(self, adjacency: Adjacency, gradient: Tensor, state: Tensor) -> Tensor:
        r"""Adds one step; returns the residual's gradient sent back along the edges."""
        passed = kernels.sparse_product(adjacency.transposed, gradient)
        kernels.add_product(self._weight, state, passed)
        if self._root is not None:
            kernels.add_product(self._root, state, gradient)
        return passed

    def state_gradient(self, passed: Tensor, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        r"""Returns the gradient of the step in the state it started from."""
        out = torch.mm(passed, self._weight_matrix.t().to(passed.dtype), out=out)
        if self._root_matrix is not None:
            out.addmm_(gradient, self._root_matrix.t().to(gradient.dtype))
        return out

    def add_state_gradient(self, out: Tensor, passed: Tensor, gradient: Tensor) -> None:
        r"""Adds the gradient of the step to ``out``, in place."""
        out.addmm_(passed, self._weight_matrix.t().to(passed.dtype))
        if self._root_matrix is not None:
            out.addmm_(gradient, self._root_matrix.t().to(gradient.dtype))

    def results(self) -> tuple[Tensor, Tensor | None]:
        return self._weight, self._root
