"""Picks the implementation of each inner product: Triton on CUDA where it is there, else torch."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from torch_grama.nn.engine import host_memory, torch_kernels
from torch_grama.nn.engine.adjacency import CSR, Adjacency
from torch_grama.nn.engine.sequence import Activation, Groups, identity

__all__ = [
    "add_combination",
    "add_product",
    "coefficient_kernels",
    "combine_both",
    "gram",
    "horner_steps",
    "linear_steps",
    "pool",
    "runs_on_device",
    "sequence_gradient",
    "sparse_product",
    "step_kernels",
    "sum_per_graph",
]


def combine_both(
    state_weights: Tensor,
    states: Tensor,
    residual_weights: Tensor | None,
    residuals: Tensor | None,
    groups: Groups,
    act: Activation,
) -> Tensor:
    r"""Returns the weighted sums over states and residuals, ``[R, N, F]``."""
    fast = _triton_for(act, states, residuals)
    if fast is not None:
        out: Tensor = fast.combine(state_weights, states, residual_weights, residuals, groups, act)
        return out
    return torch_kernels.combine(state_weights, states, groups, act, residual_weights, residuals)


def sequence_gradient(
    weights: Tensor | None,
    gradient: Tensor | None,
    share: Tensor | None,
    newest: Tensor | None,
    groups: Groups,
    sequence: Tensor,
    act: Activation,
    out: Tensor | None = None,
) -> Tensor:
    r"""Returns the gradient of weighted sums, of means and of the newest element in the sequence,
    ``[L, N, F]``.

    Args:
        weights (Tensor, optional): Weights of the sums, ``[B, R, L]``.
        gradient (Tensor, optional): Gradient of the sums, ``[R, N, F]``.
        share (Tensor, optional): Gradient of the means over nodes, ``[B, L, F]``.
        newest (Tensor, optional): Gradient of the last element, activated, ``[N, F]``.
        groups (Groups): Which nodes form a graph.
        sequence (Tensor): The sequence, ``[L, N, F]``.
        act (callable): Its activation.
        out (Tensor, optional): Where to write; may be the sequence itself.
    """
    fast = _triton_for(act, gradient, sequence, newest, out)
    target = host_memory.new_empty(sequence, *sequence.shape) if out is None else out
    if fast is not None and weights is not None and gradient is not None:
        fast.sequence_gradient(target, weights, gradient, share, newest, groups, sequence, act)
    else:
        torch_kernels.sequence_gradient(
            target, weights, gradient, share, newest, groups, sequence, act
        )
    return target


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, groups: Groups
) -> None:
    r"""Writes ``base`` (or zero) plus the weighted sum of ``sequence`` into ``out``, ``[N, F]``."""
    implementation = _triton_for(identity, out, base, sequence) or torch_kernels
    implementation.add_combination(out, base, weights, sequence, groups)


def step_kernels(*sequences: Tensor | None) -> ModuleType | None:
    r"""Returns the Triton kernels if all elements of these sequences can go through them, else
    None; asked once for all steps.
    """
    return _triton_for(identity, *sequences)


def gram(
    gradient: Tensor,
    sequence: Tensor,
    groups: Groups,
    act: Activation = identity,
) -> Tensor:
    r"""Returns the inner products per graph, ``[B, R, L]``."""
    implementation = _triton_for(act, gradient, sequence) or torch_kernels
    out: Tensor = implementation.gram(gradient, sequence, groups, act)
    return out


def pool(sequence: Tensor, groups: Groups, act: Activation) -> Tensor:
    r"""Returns the activated means over the nodes of each graph, ``[B, L, F]``."""
    fast = _triton_for(act, sequence)
    if fast is None:
        return torch_kernels.pool(sequence, groups, act)
    out: Tensor = fast.sum_per_graph(sequence, groups, act, mean=True)
    return out


def sparse_product(matrix: CSR, x: Tensor) -> Tensor:
    r"""Returns the product of a sparse and a dense matrix, ``[N, F]``."""
    fast = _triton_for(identity, x)
    if fast is None:
        return torch_kernels.sparse_product(matrix, x)
    out = torch.empty_like(x)
    fast.sparse_product(matrix, x, out)
    return out


def linear_steps(
    states: Tensor,
    residuals: Tensor,
    response: Tensor,
    adjacency: Adjacency,
    newest: Tensor,
    weight: Tensor,
    root_weight: Tensor | None,
    bias: Tensor | None,
    groups: Groups,
) -> None:
    r"""Writes all residuals and states; ``states`` holds the mixed parts before."""
    fast = step_kernels(states, newest)
    matrix = adjacency.csr
    weight = weight.to(states.dtype)
    root_weight = None if root_weight is None else root_weight.to(states.dtype)
    if fast is None:
        torch_kernels.linear_steps(
            states, residuals, response, matrix, newest, weight, root_weight, bias, groups
        )
        return
    before = newest
    for step, (state, residual) in enumerate(zip(states, residuals, strict=True)):
        sent = before @ weight
        if root_weight is not None:
            torch.mm(before, root_weight, out=residual)
        before = state
        fast.sparse_product(
            matrix,
            sent,
            residual,
            base=None if root_weight is None else residual,
            bias=bias,
            state=state,
            history=residuals[:step],
            response=response,
            groups=groups,
        )


def horner_steps(
    terms: Tensor,
    adjacency: Adjacency,
    weight: Tensor,
    root_weight: Tensor | None,
    offset: Tensor | None,
    groups: Groups,
) -> None:
    r"""Adds to each of ``terms``, from the last but one down, the backbone of the one after it, in
    place, and its offset of each graph, ``[B, R, F]``.
    """
    fast = step_kernels(terms)
    matrix = adjacency.csr
    weight = weight.to(terms.dtype)
    root_weight = None if root_weight is None else root_weight.to(terms.dtype)
    if fast is None:
        torch_kernels.horner_steps(terms, matrix, weight, root_weight, offset, groups)
        return
    *levels, state = terms
    for level, term in reversed(list(enumerate(levels))):
        sent = state @ weight
        if root_weight is not None:
            term.addmm_(state, root_weight)
        constant = None if offset is None else offset[:, level]
        fast.sparse_product(matrix, sent, term, base=term, bias=constant, groups=groups)
        state = term


def sum_per_graph(sequence: Tensor, groups: Groups) -> Tensor:
    r"""Returns the sums over the nodes of each graph, ``[B, L, F]``, in float32 or better."""
    fast = _triton_for(identity, sequence)
    if fast is not None:
        out: Tensor = fast.sum_per_graph(sequence, groups)
        return out
    return torch_kernels.sum_per_graph(sequence, groups)


def add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    r"""Adds the product of ``left`` transposed and ``right`` to ``out``, in place."""
    if left.dtype == out.dtype:
        out.addmm_(left.t(), right)
    else:
        out += (left.t() @ right).to(out.dtype)


def runs_on_device(tensor: Tensor) -> bool:
    r"""Whether work on tensors like this one goes through Triton, where launches are what costs."""
    return (
        (tensor.is_cuda or _interprets())
        and tensor.dtype != torch.float64
        and _load_triton_kernels() is not None
    )


def _triton_for(act: Activation, *tensors: Tensor | None) -> ModuleType | None:
    r"""Returns the Triton kernels if they can take these tensors, else None."""
    for tensor in tensors:
        if tensor is None:
            continue
        # float64 is for checking, and wants sums in float64
        if not tensor.is_contiguous() or tensor.dtype == torch.float64:
            return None
        if not tensor.is_cuda and not _interprets():
            return None
    kernels = _load_triton_kernels()
    if kernels is None or act not in kernels.ACTIVATION_CODES:
        return None
    return kernels


def coefficient_kernels(*tensors: Tensor) -> ModuleType | None:
    r"""Returns the Triton kernels of the coefficients if they can take these tensors, else None."""
    for tensor in tensors:
        if tensor.dtype != torch.float32 or not tensor.is_contiguous():
            return None
    if _triton_for(identity, *tensors) is None:
        return None
    return _load_coefficient_kernels()


@cache
def _load_triton_kernels() -> ModuleType | None:
    if find_spec("triton") is None:
        return None
    from torch_grama.nn.engine import triton_sequences

    return triton_sequences


@cache
def _load_coefficient_kernels() -> ModuleType:
    from torch_grama.nn.engine import triton_coefficients

    return triton_coefficients


def _interprets() -> bool:
    # Triton's own switch: kernels run as Python on the CPU, slowly, for tests
    return os.environ.get("TRITON_INTERPRET") == "1"
