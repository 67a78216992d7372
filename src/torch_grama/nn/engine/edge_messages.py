"""Messages along edges, summed at their targets: through Triton where it is there, else in torch.

Everywhere: N nodes, E edges, F channels. The edges may come in any order; the kernels read them by
target, and on the way back by source, without atomic operations.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch_geometric.utils import scatter

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import Adjacency, gather, value_type
from torch_grama.nn.engine.sequence import apply, handwritten_gradients_work, identity


def order_edges(edge_index: Tensor, num_nodes: int) -> Adjacency:
    r"""Returns the edges as a matrix with their numbers for values: sorted by target, and by source
    as the transposed one, each when it is first asked for.
    """
    numbers = torch.arange(edge_index.size(1), dtype=torch.int32, device=edge_index.device)
    return Adjacency(edge_index[1], edge_index[0], numbers, num_nodes)


def reads_order(edge_index: Tensor) -> bool:
    r"""Whether sums over these edges ask for their order."""
    return handwritten_gradients_work() and kernels.runs_on_device(edge_index)


def edge_kernels(*tensors: Tensor | None) -> ModuleType | None:
    r"""Returns the kernels if they can work on these tensors now."""
    if not handwritten_gradients_work() or kernels.triton_for(identity, *tensors) is None:
        return None
    return kernels._load("triton_edges")


def gated_sum(
    nodes: Tensor,
    projected: Tensor,
    edge_index: Tensor,
    order: Adjacency | None = None,
    normalizes: bool = True,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    r"""Returns gated sums over neighbours, and the logits of the gates:

    .. math::
        \hat{\mathbf{e}}_{ij} = \mathbf{c}_{ij} + \mathbf{d}_i + \mathbf{s}_j, \qquad
        \mathbf{a}_i + \frac{\sum_j \sigma(\hat{\mathbf{e}}_{ij}) \odot \mathbf{b}_j}
        {\sum_j \sigma(\hat{\mathbf{e}}_{ij}) + \epsilon}.

    Args:
        nodes (Tensor): Side by side :math:`\mathbf{a}`, :math:`\mathbf{d}`, :math:`\mathbf{b}` and
            :math:`\mathbf{s}`, :math:`(N, 4 F)`.
        projected (Tensor): The edges' part :math:`\mathbf{c}`, :math:`(E, F)`, or :math:`(1, F)`
            for all.
        edge_index (Tensor): Edges from source to target :math:`(2, E)`.
        order (Adjacency, optional): That of :func:`order_edges`. (default: :obj:`None`)
        normalizes (bool, optional): If :obj:`False`, nothing is divided. (default: :obj:`True`)
        epsilon (float, optional): The number :math:`\epsilon`. (default: :obj:`1e-6`)
    """
    fast = edge_kernels(nodes, projected)
    if fast is None:
        channels = nodes.size(-1) // 4
        own, to_target, from_source = nodes.split([channels, channels, 2 * channels], dim=-1)
        message, gate_source = gather(from_source, edge_index[0]).chunk(2, dim=-1)
        logits = projected + gather(to_target, edge_index[1]) + gate_source
        total = _gate(logits, message, edge_index[1], nodes.size(0), normalizes, epsilon)
        return (own + total).to(nodes.dtype), logits.to(projected.dtype)
    order = order_edges(edge_index, nodes.size(0)) if order is None else order
    out: Tensor
    logits_: Tensor
    out, logits_, _ = apply(
        _GatedSum, nodes, projected, order, normalizes, epsilon, torch.is_grad_enabled(), fast
    )
    return out, logits_


def neighbor_sum(
    sent: Tensor, projected: Tensor | None, edge_index: Tensor, order: Adjacency | None = None
) -> Tensor:
    r"""Returns :math:`\sum_j \mathrm{ReLU}(\mathbf{s}_j + \mathbf{c}_{ij})`, without
    :math:`\mathbf{c}` if there is none, :math:`(N, F)`; arguments as in :func:`gated_sum`.
    """
    fast = edge_kernels(sent, projected)
    if fast is None:
        return _add_neighbors(sent, projected, edge_index[0], edge_index[1])
    order = order_edges(edge_index, sent.size(0)) if order is None else order
    out: Tensor = apply(_NeighborSum, sent, projected, order, fast)
    return out


def _gate(
    logits: Tensor, message: Tensor, target: Tensor, size: int, normalizes: bool, epsilon: float
) -> Tensor:
    gate = logits.to(message.dtype).sigmoid()
    # [E, F] -> [N, F]
    total = scatter(gate * message, target, dim_size=size, reduce="sum")
    if normalizes:
        total = total / (scatter(gate, target, dim_size=size, reduce="sum") + epsilon)
    return total


def _add_neighbors(
    sent: Tensor, projected: Tensor | None, source: Tensor, target: Tensor
) -> Tensor:
    message = gather(sent, source)
    if projected is not None:
        message = message + projected
    total = scatter(F.relu(message), target, dim_size=sent.size(0), reduce="sum")
    return total.to(sent.dtype)


class _GatedSum(Function):
    r"""``(nodes, projected) -> (sums, logits, messages)``.

    Messages are a copy of their part of the nodes, so that the other parts need not be kept. They
    are a result, as the logits are, so that a second differentiation finds its way back.
    """

    @staticmethod
    def forward(
        ctx: Any,
        nodes: Tensor,
        projected: Tensor,
        order: Adjacency,
        normalizes: bool,
        epsilon: float,
        trains: bool,
        fast: ModuleType,
    ) -> tuple[Tensor, Tensor, Tensor]:
        channels = projected.size(1)
        logits = projected.new_empty(order.value.numel(), channels)
        messages = nodes.new_empty(nodes.size(0) if trains else 0, channels)
        out = fast.gated_sum(
            nodes, projected, logits, messages if trains else None, order.csr, normalizes, epsilon
        )
        ctx.save_for_backward(logits, messages)
        ctx.order, ctx.settings, ctx.fast = order, (normalizes, epsilon), fast
        ctx.projected_size = projected.size()
        ctx.set_materialize_grads(False)
        return out, logits, messages

    @staticmethod
    def backward(
        ctx: Any,
        gradient: Tensor | None,
        logits_gradient: Tensor | None,
        messages_gradient: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        logits, messages = ctx.saved_tensors
        order: Adjacency = ctx.order
        gradient = torch.zeros_like(messages) if gradient is None else gradient.contiguous()
        if torch.is_grad_enabled() or messages_gradient is not None:
            with torch.enable_grad():
                message = gather(messages, order.source)
                size = messages.size(0)
                total = _gate(logits, message, order.target, size, *ctx.settings)
                of_logits, of_messages = torch.autograd.grad(
                    total, (logits, messages), gradient, create_graph=True
                )
            if logits_gradient is not None:
                of_logits = of_logits + logits_gradient
            if messages_gradient is not None:
                of_messages = of_messages + messages_gradient
            to_target, to_source = (
                scatter(of_logits.to(value_type(of_logits.dtype)), end, dim_size=size)
                for end in (order.target, order.source)
            )
            of_nodes = torch.cat([gradient, to_target, of_messages, to_source], dim=-1)
            of_nodes = of_nodes.to(messages.dtype)
        else:
            if logits_gradient is not None:
                logits_gradient = logits_gradient.contiguous()
            of_nodes, of_logits = ctx.fast.gated_sum_gradient(
                gradient,
                logits_gradient,
                logits,
                messages,
                order.csr,
                order.transposed,
                *ctx.settings,
            )
        return of_nodes, of_logits.sum_to_size(ctx.projected_size), *(None,) * 5


class _NeighborSum(Function):
    @staticmethod
    def forward(
        ctx: Any, sent: Tensor, projected: Tensor | None, order: Adjacency, fast: ModuleType
    ) -> Tensor:
        ctx.save_for_backward(sent, projected)
        ctx.order, ctx.fast = order, fast
        out: Tensor = fast.neighbor_sum(sent, projected, order.csr)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sent, projected = ctx.saved_tensors
        order: Adjacency = ctx.order
        if torch.is_grad_enabled():
            out = _add_neighbors(sent, projected, order.source, order.target)
            return *differentiate(out, (sent, projected), gradient), None, None
        gradient = gradient.contiguous()
        gradients = ctx.fast.neighbor_sum_gradient(gradient, sent, projected, order.transposed)
        return *gradients, None, None


def differentiate(
    out: Tensor, given: tuple[Tensor | None, ...], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    r"""Returns gradients that can be differentiated again; None for what needs none."""
    needed = [tensor for tensor in given if tensor is not None and tensor.requires_grad]
    found = iter(torch.autograd.grad(out, needed, gradient, create_graph=True))
    return tuple(next(found) if any(t is n for n in needed) else None for t in given)
