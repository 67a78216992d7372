"""The inner products of the engines in plain torch: for CPUs, and wherever Triton is missing.

Everywhere: L given elements, R new ones, N nodes, F channels, B graphs. Weights are per graph,
``[B, R, L]``; ``groups`` says which nodes form a graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.nn.activation import Activation, identity
from torch_grama.nn.engine.adjacency import CSR
from torch_grama.nn.engine.groups import Groups
from torch_grama.nn.graph_mean import graph_mean


def combine(
    weights: Tensor, sequence: Tensor, groups: Groups, act: Activation = identity
) -> Tensor:
    r"""Returns :math:`\sum_l w_{rl} \, \sigma(\mathbf{x}_l)`, ``[R, N, F]``."""
    x = act(sequence)
    dtype = torch.promote_types(weights.dtype, x.dtype)
    if groups.batch is None:
        out = weights[0].to(dtype) @ x.flatten(1).to(dtype)
        return out.view(weights.size(1), *x.shape[1:]).to(x.dtype)
    # [N, R, L] x [N, L, F] -> [N, R, F], seen as [R, N, F]
    out = weights.to(dtype)[groups.batch] @ x.transpose(0, 1).to(dtype)
    return out.transpose(0, 1).to(x.dtype)


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, groups: Groups
) -> None:
    r"""Writes :math:`\mathbf{c} + \sum_l w_l \, \mathbf{x}_l` into ``out``, ``[N, F]``.

    ``weights`` is ``[B, L]``; ``base`` may be ``out`` itself, or None for zero.
    """
    if groups.batch is None and out.dtype == weights.dtype and sequence.is_contiguous():
        flat, beta = (out, 0) if base is None else (base, 1)
        matrix = sequence.flatten(1).t()
        torch.addmv(flat.reshape(-1), matrix, weights[0], beta=beta, out=out.view(-1))
    else:
        total = combine(weights.unsqueeze(1), sequence, groups)[0]
        out.copy_(total if base is None else base + total)


def sequence_gradient(
    weights: Tensor | None,
    gradient: Tensor | None,
    share: Tensor | None,
    newest: Tensor | None,
    groups: Groups,
    sequence: Tensor,
    act: Activation,
) -> Tensor:
    r"""Returns the gradient of :func:`combine`, of :func:`pool` and of the newest element in the
    sequence.
    """
    if weights is None or gradient is None:
        out = torch.zeros_like(sequence)
    else:
        out = combine(weights.transpose(1, 2), gradient, groups)
    if share is not None:
        share = share / groups.node_counts(sequence.size(1))
        by_position = share.transpose(0, 1).to(out.dtype)  # [L, B, F]
        out = out + (by_position if groups.batch is None else by_position[:, groups.batch])
    if newest is not None:
        out[-1].add_(newest)
    return activation_gradient(act, sequence, out)


def gram(gradient: Tensor, sequence: Tensor, groups: Groups, act: Activation) -> Tensor:
    r"""Returns the gradient of :func:`combine` in the weights, ``[B, R, L]``."""
    x = act(sequence)
    dtype = torch.promote_types(x.dtype, torch.float32)
    g, x = gradient.to(dtype), x.to(dtype)
    if groups.batch is None:
        return (g.flatten(1) @ x.flatten(1).t()).unsqueeze(0)
    # [N, R, F] x [N, F, L] -> [N, R, L] -> [B, R, L]
    per_node = g.transpose(0, 1) @ x.permute(1, 2, 0)
    return per_node.new_zeros(groups.num_graphs, *per_node.shape[1:]).index_add_(
        0, groups.batch, per_node
    )


def pool(sequence: Tensor, groups: Groups, act: Activation) -> Tensor:
    r"""Returns the mean of :math:`\sigma(\mathbf{x}_l)` over each graph, ``[B, L, F]``."""
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    return graph_mean(act(sequence).to(dtype), groups.batch, groups.num_graphs)


def sparse_product(matrix: CSR, x: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{A} \mathbf{x}`, ``[N, F]``."""
    if x.dtype != matrix.value.dtype:
        return sparse_product(matrix, x.to(matrix.value.dtype)).to(x.dtype)
    if x.device.type == "cpu":
        # many times faster on a CPU than the plain product
        out: Tensor = torch.sparse.mm(matrix.matrix, x.contiguous(), "sum")
        return out
    return matrix.matrix @ x


def activation_gradient(act: Activation, x: Tensor, gradient: Tensor) -> Tensor:
    r"""Returns the gradient of :math:`\sigma(\mathbf{x})` in :math:`\mathbf{x}`."""
    if act is identity:
        return gradient
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = act(x)
    return torch.autograd.grad(y, x, gradient.to(y.dtype))[0]
