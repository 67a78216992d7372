"""Picks the implementation of each inner product: Triton on CUDA where it is there, else torch."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.nn.activation import Activation, identity
from torch_grama.nn.engine import torch_kernels
from torch_grama.nn.engine.adjacency import CSR, Adjacency
from torch_grama.nn.engine.torch_kernels import activation_gradient

__all__ = [
    "activation_gradient",
    "add_combination",
    "add_per_graph",
    "add_product",
    "combine_backward",
    "combine_both",
    "gram",
    "horner_step",
    "linear_step",
    "pool",
    "pool_backward",
    "sparse_product",
    "sum_per_graph",
]


def combine_both(
    state_weights: Tensor,
    states: Tensor,
    residual_weights: Tensor | None,
    residuals: Tensor | None,
    batch: Tensor | None,
    act: Activation,
) -> Tensor:
    r"""Returns the weighted sums over states and residuals, ``[R, N, F]``."""
    # a tensor of its own, not a view: the linear engine writes the states over it
    out = torch.empty(
        state_weights.size(1), *states.shape[1:], dtype=states.dtype, device=states.device
    )
    out.copy_(torch_kernels.combine(state_weights, states, batch, act))
    if residual_weights is not None and residuals is not None:
        out += torch_kernels.combine(residual_weights, residuals, batch, act)
    return out


def combine_backward(
    weights: Tensor, gradient: Tensor, sequence: Tensor, batch: Tensor | None, act: Activation
) -> Tensor:
    r"""Returns the gradient of the sums in the sequence, ``[L, N, F]``."""
    return torch_kernels.combine_backward(weights, gradient, sequence, batch, act)


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, batch: Tensor | None
) -> None:
    r"""Writes ``base`` (or zero) plus the weighted sum of ``sequence`` into ``out``, ``[N, F]``."""
    torch_kernels.add_combination(out, base, weights, sequence, batch)


def gram(
    gradient: Tensor,
    sequence: Tensor,
    batch: Tensor | None,
    num_graphs: int,
    act: Activation = identity,
) -> Tensor:
    r"""Returns the inner products per graph, ``[B, R, L]``."""
    return torch_kernels.gram(gradient, sequence, batch, num_graphs, act)


def pool(sequence: Tensor, batch: Tensor | None, num_graphs: int, act: Activation) -> Tensor:
    r"""Returns the activated means over the nodes of each graph, ``[B, L, F]``."""
    return torch_kernels.pool(sequence, batch, num_graphs, act)


def pool_backward(
    gradient: Tensor, share: Tensor, sequence: Tensor, batch: Tensor | None, act: Activation
) -> None:
    r"""Adds the gradient of the means to ``gradient``, in place."""
    torch_kernels.pool_backward(gradient, share, sequence, batch, act)


def sparse_product(matrix: CSR, x: Tensor) -> Tensor:
    r"""Returns the product of a sparse and a dense matrix, ``[N, F]``."""
    return torch_kernels.sparse_product(matrix, x)


def linear_step(
    states: Tensor,
    residuals: Tensor,
    step: int,
    response: Tensor,
    adjacency: Adjacency,
    state: Tensor,
    weight: Tensor,
    root_weight: Tensor | None,
    bias: Tensor | None,
    batch: Tensor | None,
) -> None:
    r"""Writes residual and state number ``step``; ``states[step]`` holds the mixed part before."""
    torch.mm(state, weight.to(state.dtype), out=residuals[step])
    residuals[step] = sparse_product(adjacency.csr, residuals[step])
    if root_weight is not None:
        residuals[step].addmm_(state, root_weight.to(state.dtype))
    if bias is not None:
        residuals[step] += bias
    weights = response[:, : step + 1].flip(-1)
    add_combination(states[step], states[step], weights, residuals[: step + 1], batch)


def horner_step(
    terms: Tensor, level: int, adjacency: Adjacency, weight: Tensor, root_weight: Tensor | None
) -> None:
    r"""Adds the backbone of ``terms[level + 1]`` to ``terms[level]``, in place."""
    state = terms[level + 1]
    terms[level] += sparse_product(adjacency.csr, state @ weight.to(state.dtype))
    if root_weight is not None:
        terms[level].addmm_(state, root_weight.to(state.dtype))


def add_per_graph(sequence: Tensor, offset: Tensor, batch: Tensor | None) -> None:
    r"""Adds ``offset``, ``[B, L, F]``, to every node of its graph in ``[L, N, F]``, in place."""
    for position in range(sequence.size(0)):
        row = offset[:, position].to(sequence.dtype)
        sequence[position] += row if batch is None else row[batch]


def sum_per_graph(sequence: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
    r"""Returns the sums over the nodes of each graph, ``[B, L, F]``, in float32 or better."""
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    if batch is None:
        return sequence.sum(dim=1, dtype=dtype).unsqueeze(0)
    total = torch.zeros(
        sequence.size(0), num_graphs, sequence.size(2), dtype=dtype, device=sequence.device
    )
    return total.index_add_(1, batch, sequence.to(dtype)).transpose(0, 1)


def add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    r"""Adds the product of ``left`` transposed and ``right`` to ``out``, in place."""
    if left.dtype == out.dtype:
        out.addmm_(left.t(), right)
    else:
        out += (left.t() @ right).to(out.dtype)
