"""The inner products of the engines: through Triton on CUDA where it is there, else in torch.

Everywhere: L given elements, R new ones, N nodes, F channels, B graphs. Weights are per graph,
``[B, R, L]``; ``groups`` says which nodes form a graph. On a CPU, sequences are worked on a few
nodes at a time, so that what lies between two operations stays in the caches.
"""

from __future__ import annotations

import math
import os
from bisect import bisect, bisect_left
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_grama.nn.engine.adjacency import CSR
from torch_grama.nn.engine.sequence import Activation, Groups, identity

# Triton's own switch: kernels run as Python on the CPU, slowly, for tests.
_SWITCH = "TRITON_INTERPRET"
# Of a sequence, at a time.
_CHUNK_BYTES = 2 << 20
# Products of many nodes, each with its own weights, in one go; elsewhere one after the other.
_BATCHES_PRODUCTS = torch.backends.mkl.is_available()
# Elements of a graph's sequence from which on it has a product of its own, in place of its nodes.
_LARGE_GRAPH = 20_000 if _BATCHES_PRODUCTS else 2_000
# Products of one node under which torch's batched product leaves its fast library for a loop.
_FEW_PRODUCTS = 400
# From here on, host tensors lie in memory that is used again.
_LARGE_BYTES = 4 << 20


def new_empty(like: Tensor, *size: int) -> Tensor:
    r"""Returns an uninitialised tensor; a large one on a CPU lies in memory that is used again."""
    if like.device.type != "cpu" or math.prod(size) * like.element_size() < _LARGE_BYTES:
        return like.new_empty(size)
    from torch_grama.nn.engine import host_memory

    return host_memory.new_empty(like, *size)


def combine(
    weights: Tensor,
    sequence: Tensor,
    other_weights: Tensor | None,
    other: Tensor | None,
    groups: Groups,
    act: Activation,
) -> Tensor:
    r"""Returns :math:`\sum_l w_{rl} \, \sigma(\mathbf{x}_l)` of one or two, ``[R, N, F]``."""
    fast = triton_for(act, sequence, other)
    out = new_empty(sequence, weights.size(1), *sequence.shape[1:])
    if fast is not None:
        fast.combine(out, weights, sequence, other_weights, other, groups, act)
        return out
    for nodes, batch, graphs in _chunks(sequence, groups):
        part = out[:, nodes]
        _combine_into(part, weights, act(sequence[:, nodes]), batch, graphs, adds=False)
        if other_weights is not None and other is not None:
            _combine_into(part, other_weights, act(other[:, nodes]), batch, graphs, adds=True)
    return out


def add_combination(
    out: Tensor, base: Tensor | None, weights: Tensor, sequence: Tensor, groups: Groups
) -> None:
    r"""Writes :math:`\mathbf{c} + \sum_l w_l \, \mathbf{x}_l` into ``out``; it may be ``base``."""
    fast = triton_for(identity, out, base, sequence)
    if fast is not None:
        fast.add_combination(out, base, weights, sequence, groups)
    elif groups.batch is None and out.dtype == weights.dtype and sequence.is_contiguous():
        flat, beta = (out, 0) if base is None else (base, 1)
        matrix = sequence.flatten(1).t()
        torch.addmv(flat.reshape(-1), matrix, weights[0], beta=beta, out=out.view(-1))
    elif groups.batch is not None and out.dtype == weights.dtype:
        # in place: to find memory for a term takes longer than to add it
        by_node = weights.t()[:, groups.batch].unsqueeze(-1)  # [L, N, 1]
        if base is None:
            torch.mul(by_node[0], sequence[0], out=out)
        else:
            torch.addcmul(base, by_node[0], sequence[0], out=out)
        for weight, x in zip(by_node[1:], sequence[1:], strict=True):
            out.addcmul_(weight, x)
    else:
        total = _combine(weights.unsqueeze(1), sequence, groups.batch)[0]
        out.copy_(total if base is None else base + total)


def respond(
    out: Tensor,
    base: Tensor | None,
    response: Tensor,
    buffer: Tensor,
    step: int,
    new: Tensor,
    groups: Groups,
    backwards: bool = False,
) -> None:
    r"""Keeps :math:`\mathbf{x}_s` in the buffer and writes :math:`\mathbf{c} + \sum_{k \le s}
    h_{s-k} \, \mathbf{x}_k` into ``out``; or the sum :math:`\sum_{k \ge s} h_{k-s}`, backwards.
    """
    fast = triton_for(identity, out, base, new)
    if fast is not None:
        fast.respond(out, base, response, buffer, step, new, groups, backwards)
        return
    buffer[step] = new
    if backwards:
        weights, window = response[:, : buffer.size(0) - step], buffer[step:]
    else:
        weights, window = response[:, : step + 1].flip(-1), buffer[: step + 1]
    add_combination(out, base, weights, window, groups)


def sequence_gradient(
    weights: Tensor | None,
    gradient: Tensor | None,
    share: Tensor | None,
    newest: Tensor | None,
    groups: Groups,
    sequence: Tensor,
    act: Activation,
) -> Tensor:
    r"""Returns the gradient of :func:`combine`, of :func:`pool` (``share``, ``[B, L, F]``) and of
    the newest element in the sequence, ``[L, N, F]``; None for zero.
    """
    out = new_empty(sequence, *sequence.shape)
    fast = triton_for(act, gradient, sequence, newest)
    if fast is not None and weights is not None and gradient is not None:
        fast.sequence_gradient(out, weights, gradient, share, newest, groups, sequence, act)
        return out
    by_position = None
    if share is not None:
        share = share / groups.node_counts(sequence.size(1))
        by_position = share.transpose(0, 1).to(sequence.dtype)  # [L, B, F]
    for nodes, batch, graphs in _chunks(sequence, groups):
        x = sequence[:, nodes]
        if by_position is None:
            part = x.new_zeros(x.size())
        elif batch is None:
            part = by_position.repeat(1, x.size(1), 1)
        else:
            part = by_position.index_select(1, batch)
        if weights is not None and gradient is not None:
            backwards = weights.transpose(1, 2)
            _combine_into(part, backwards, gradient[:, nodes], batch, graphs, adds=True)
        if newest is not None:
            part[-1] += newest[nodes]
        _write_activation_gradient(out[:, nodes], act, x, part)
    return out


def gram(gradient: Tensor, sequence: Tensor, groups: Groups, act: Activation = identity) -> Tensor:
    r"""Returns the gradient of :func:`combine` in the weights, ``[B, R, L]``, float32 or better."""
    fast = triton_for(act, gradient, sequence)
    if fast is not None:
        products: Tensor = fast.gram(gradient, sequence, groups, act)
        return products
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    size = groups.num_graphs, gradient.size(0), sequence.size(0)
    out = torch.zeros(size, dtype=dtype, device=sequence.device)
    for nodes, batch, graphs in _chunks(sequence, groups):
        g, x = gradient[:, nodes].to(dtype), act(sequence[:, nodes]).to(dtype)
        if batch is None or (graphs and not _BATCHES_PRODUCTS):
            for graph, own in graphs or [(0, slice(None))]:
                out[graph].addmm_(g[:, own].flatten(1), x[:, own].flatten(1).t())
        else:
            # [N, R, F] x [N, F, L] -> [N, R, L] -> [B, R, L]
            out.index_add_(0, batch, g.transpose(0, 1) @ x.permute(1, 2, 0))
    return out


def pool(sequence: Tensor, groups: Groups, act: Activation = identity, mean: bool = True) -> Tensor:
    r"""Returns the mean of :math:`\sigma(\mathbf{x}_l)` of a graph, or the sum, ``[B, L, F]``."""
    fast = triton_for(act, sequence)
    if fast is not None:
        out: Tensor = fast.pool(sequence, groups, act, mean)
        return out
    dtype = torch.promote_types(sequence.dtype, torch.float32)
    size = sequence.size(0), groups.num_graphs, sequence.size(2)
    total = torch.zeros(size, dtype=dtype, device=sequence.device)
    for nodes, batch, _ in _chunks(sequence, groups):
        x = act(sequence[:, nodes])
        if batch is None:
            total += x.sum(dim=1, keepdim=True, dtype=dtype)
        elif x.device.type == "cpu" and x.dtype == torch.float32:
            # a bag for each position and graph; those without nodes here are empty
            length, count, channels = x.size()
            starts = groups.starts[:-1].sub(nodes.start).clamp_(0, count)
            starts = starts + count * torch.arange(length).unsqueeze(1)
            rows = torch.arange(length * count)
            sums = F.embedding_bag(rows, x.reshape(-1, channels), starts.flatten(), mode="sum")
            total += sums.view_as(total)
        else:
            total.index_add_(1, batch, x.to(dtype))
    total = total.transpose(0, 1)
    return total / groups.node_counts(sequence.size(1)) if mean else total


def sparse_product(matrix: CSR, x: Tensor) -> Tensor:
    fast = triton_for(identity, x)
    if fast is not None:
        out = torch.empty_like(x)
        fast.sparse_product(matrix, x, out)
        return out
    if x.dtype != matrix.value.dtype:
        return sparse_product(matrix, x.to(matrix.value.dtype)).to(x.dtype)
    if x.device.type != "cpu":
        return matrix.matrix @ x
    if x.dtype == torch.float32:
        return _sum_rows(matrix.row_start, matrix.column, matrix.value, x.contiguous())
    # many times faster on a CPU than the plain product
    product: Tensor = torch.sparse.mm(matrix.matrix, x.contiguous(), "sum")
    return product


def _sum_rows(row_start: Tensor, column: Tensor, value: Tensor, x: Tensor) -> Tensor:
    # a weighted sum of rows for each bag: the same product, in torch's fastest kernel for it
    return F.embedding_bag(column, x, row_start[:-1], mode="sum", per_sample_weights=value)


def _product_chunks(matrix: CSR, x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    r"""Yields rows of :func:`sparse_product`, on a CPU a few that are read from its caches next."""
    if x.device.type != "cpu" or not x.dtype == matrix.value.dtype == torch.float32:
        yield slice(None), sparse_product(matrix, x)
        return
    x = x.contiguous()
    size = max(_CHUNK_BYTES // max(x.size(1) * x.element_size(), 1), 1)
    for first in range(0, x.size(0), size):
        row_start = matrix.row_start[first : first + size + 1]
        edges = slice(int(row_start[0]), int(row_start[-1]))
        part = row_start - edges.start, matrix.column[edges], matrix.value[edges]
        yield slice(first, first + size), _sum_rows(*part, x)


def linear_steps(
    states: Tensor,
    residuals: Tensor,
    response: Tensor,
    matrix: CSR,
    newest: Tensor,
    weight: Tensor,
    root_weight: Tensor | None,
    bias: Tensor | None,
    groups: Groups,
) -> None:
    r"""Writes all residuals and states; ``states`` holds the mixed parts before."""
    fast = triton_for(identity, states, newest)
    weight = weight.to(states.dtype)
    root_weight = None if root_weight is None else root_weight.to(states.dtype)
    if fast is None:
        bias = None if bias is None else bias.to(states.dtype)
    before = newest
    for step, (state, residual) in enumerate(zip(states, residuals, strict=True)):
        if fast is not None:
            sent = before @ weight
            base = None if root_weight is None else torch.mm(before, root_weight, out=residual)
            fast.sparse_product(
                matrix, sent, residual, base, bias, state, residuals[:step], response, groups
            )
        else:
            # neighbours first: the product with the weight then writes where the result belongs
            for rows, arrived in _product_chunks(matrix, before):
                if bias is None:
                    torch.mm(arrived, weight, out=residual[rows])
                else:
                    torch.addmm(bias, arrived, weight, out=residual[rows])
            if root_weight is not None:
                residual.addmm_(before, root_weight)
            weights = response[:, : step + 1].flip(-1)
            add_combination(state, state, weights, residuals[: step + 1], groups)
        before = state


def horner_steps(
    terms: Tensor,
    matrix: CSR,
    weight: Tensor,
    root_weight: Tensor | None,
    offset: Tensor | None,
    groups: Groups,
) -> None:
    r"""Adds to each of ``terms``, from the last but one down, the backbone of the one after it and
    its offset of each graph, ``[B, R, F]``, in place.
    """
    fast = triton_for(identity, terms)
    weight = weight.to(terms.dtype)
    root_weight = None if root_weight is None else root_weight.to(terms.dtype)
    *levels, state = terms
    for level, term in reversed(list(enumerate(levels))):
        constant = None if offset is None else offset[:, level]
        if root_weight is not None:
            term.addmm_(state, root_weight)
        if fast is not None:
            sent = state @ weight
            fast.sparse_product(matrix, sent, term, base=term, bias=constant, groups=groups)
        else:
            for rows, arrived in _product_chunks(matrix, state):
                term[rows].addmm_(arrived, weight)
            if constant is not None:
                for nodes, batch, _ in _chunks(term.unsqueeze(0), groups):
                    term[nodes] += constant if batch is None else constant.index_select(0, batch)
        state = term


def add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == out.dtype:
        out.addmm_(left.t(), right)
    else:
        out += (left.t() @ right).to(out.dtype)


def _write_activation_gradient(out: Tensor, act: Activation, x: Tensor, gradient: Tensor) -> None:
    if act is identity:
        out.copy_(gradient)
    elif act is F.relu and out.dtype == x.dtype == gradient.dtype:
        # what autograd would call, in one pass
        torch.ops.aten.threshold_backward.grad_input(gradient, x, 0, grad_input=out)
    else:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = act(x)
        out.copy_(torch.autograd.grad(y, x, gradient.to(y.dtype))[0])


def _chunks(
    sequence: Tensor, groups: Groups
) -> Iterator[tuple[slice, Tensor | None, list[tuple[int, slice]]]]:
    r"""Yields nodes, the graph of each, and where these are large, each graph and its nodes."""
    length, num_nodes, channels = sequence.size()
    size, starts = num_nodes, []
    if sequence.device.type == "cpu":
        size = _CHUNK_BYTES // max(length * channels * sequence.element_size(), 1)
        if groups.batch is not None and sequence.numel() >= _LARGE_GRAPH * groups.num_graphs:
            starts = groups.starts.tolist()
    size = max(size, 1)
    for first in range(0, num_nodes, size):
        nodes = slice(first, first + size)
        last = min(first + size, num_nodes)
        graphs = []
        for graph in range(max(bisect(starts, first) - 1, 0), bisect_left(starts, last)):
            begin, end = max(starts[graph], first), min(starts[graph + 1], last)
            graphs.append((graph, slice(begin - first, end - first)))
        yield nodes, None if groups.batch is None else groups.batch[nodes], graphs


def _combine(weights: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
    dtype = torch.promote_types(weights.dtype, x.dtype)
    if batch is None:
        out = weights[0].to(dtype) @ x.flatten(1).to(dtype)
        return out.view(weights.size(1), *x.shape[1:]).to(x.dtype)
    _, rows, length = weights.size()
    if x.device.type == "cpu" and (
        rows * length <= 4 or rows * length * x.size(-1) < _FEW_PRODUCTS
    ):
        by_node = weights.to(dtype).permute(1, 2, 0)[:, :, batch].unsqueeze(-1)  # [R, L, N, 1]
        out = by_node[:, 0] * x[0].to(dtype)
        for position in range(1, x.size(0)):
            out.addcmul_(by_node[:, position], x[position].to(dtype))
    else:
        # [N, R, L] x [N, L, F] -> [N, R, F], seen as [R, N, F]
        out = (weights.to(dtype)[batch] @ x.transpose(0, 1).to(dtype)).transpose(0, 1)
    return out.to(x.dtype)


def _combine_into(
    out: Tensor,
    weights: Tensor,
    x: Tensor,
    batch: Tensor | None,
    graphs: list[tuple[int, slice]],
    adds: bool,
) -> None:
    if (batch is None or graphs) and out.dtype == weights.dtype == x.dtype:
        for graph, nodes in graphs or [(0, slice(None))]:
            rows = out[:, nodes].flatten(1)
            torch.addmm(rows, weights[graph], x[:, nodes].flatten(1), beta=int(adds), out=rows)
    elif adds:
        out += _combine(weights, x, batch)
    else:
        out.copy_(_combine(weights, x, batch))


def runs_on_device(tensor: Tensor) -> bool:
    r"""Whether work on tensors like this one goes through Triton, where launches are what costs."""
    return (
        (tensor.is_cuda or os.environ.get(_SWITCH) == "1")
        and tensor.dtype != torch.float64
        and _load("triton_sequences") is not None
    )


def triton_for(act: Activation, *tensors: Tensor | None) -> ModuleType | None:
    for tensor in tensors:
        if tensor is None:
            continue
        # float64 is for checking, and wants sums in float64
        if not tensor.is_contiguous() or tensor.dtype == torch.float64:
            return None
        if not tensor.is_cuda and os.environ.get(_SWITCH) != "1":
            return None
    fast = _load("triton_sequences")
    return None if fast is None or act not in fast.ACTIVATION_CODES else fast


def coefficient_kernels(*tensors: Tensor) -> ModuleType | None:
    if any(tensor.dtype != torch.float32 for tensor in tensors):
        return None
    return None if triton_for(identity, *tensors) is None else _load("triton_coefficients")


@cache
def _load(name: str) -> ModuleType | None:
    if find_spec("triton") is None:
        return None
    return import_module(f"torch_grama.nn.engine.{name}")
