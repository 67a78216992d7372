"""Products with a sparse matrix that nothing is learned of."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.kernels import sparse_product
from torch_grama.nn.engine.sequence import apply, handwritten_gradients_work


def propagate(adjacency: Adjacency, x: Tensor) -> Tensor:
    r"""Returns :math:`\mathbf{A} \mathbf{x}`, differentiable in :math:`\mathbf{x}`.

    No message is stored for an edge, so memory does not grow with edges times channels. Where the
    matrix itself is differentiated, or a compiler or a function transform looks on, the messages
    are formed after all.

    Args:
        adjacency (Adjacency): The matrix :math:`\mathbf{A}`.
        x (Tensor): Node states :math:`(N, F)`.
    """
    if adjacency.value.requires_grad or not handwritten_gradients_work():
        return adjacency.propagate(x)
    out: Tensor = apply(_FixedProduct, x, adjacency)
    return out


class _FixedProduct(torch.autograd.Function):
    """Forward with the rows, backward with the columns."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, matrix: Adjacency) -> Tensor:
        ctx.matrix = matrix  # type: ignore[attr-defined]
        return sparse_product(matrix.csr, x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        matrix: Adjacency = ctx.matrix  # type: ignore[attr-defined]
        return sparse_product(matrix.transposed, gradient), None
