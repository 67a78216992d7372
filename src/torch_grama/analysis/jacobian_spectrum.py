"""The Jacobian of a backbone at one point, never as a matrix, and its largest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_grama.analysis.inputs import check_real
from torch_grama.analysis.stability import eigenvalues


class Linearization:
    r"""The Jacobian :math:`\mathbf{J} = \partial g / \partial x` of a map :math:`g` at a point.

    The map is evaluated once. Products with :math:`\mathbf{J}^\top` are backward passes through
    that evaluation, and products with :math:`\mathbf{J}` differentiate those once more, so every
    operation that can be differentiated twice will do. Random parts such as dropout stay as they
    were drawn. A compiled module cannot be differentiated twice; pass the original.
    """

    def __init__(self, backbone: Callable[[Tensor], Tensor], point: Tensor) -> None:
        check_real("point", point, ndim=2)
        if point.dim() != 2 or point.size(-1) == 0:
            raise ValueError(
                f"Expected 'point' to have shape [num_nodes, channels] with at least one channel "
                f"(got {tuple(point.shape)})"
            )
        # Fused attention kernels have no second derivative; the plain formula has.
        with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            self._x = point.detach().clone().requires_grad_()
            self._y = backbone(self._x)
            if not isinstance(self._y, Tensor):
                raise TypeError(
                    f"Expected 'backbone' to return a tensor (got {type(self._y).__name__}); "
                    f"pass a function that returns the node features alone"
                )
            if self._y.shape != point.shape:
                raise ValueError(
                    f"Expected 'backbone' to keep the shape {tuple(point.shape)} of its input "
                    f"(got {tuple(self._y.shape)})"
                )
            self._cotangent = torch.zeros_like(self._y).requires_grad_()
            self._pullback: Tensor | None = None  # J^T u as a function of u, None for a constant
            if self._y.requires_grad:
                (self._pullback,) = torch.autograd.grad(
                    self._y, self._x, self._cotangent, create_graph=True, allow_unused=True
                )
        if self._pullback is None:
            with torch.no_grad():
                constant = torch.equal(backbone(point), backbone(point + 1))
            if not constant:
                raise ValueError(
                    "Expected 'backbone' to be differentiable (got one whose output depends on its "
                    "input but has no gradient); remove torch.no_grad() or detach() from it"
                )

    def apply(self, tangent: Tensor) -> Tensor:
        r"""The product :math:`\mathbf{J} v` with a tangent ``[N, F]``."""
        return self._differentiate(self._pullback, self._cotangent, tangent)

    def apply_transpose(self, cotangent: Tensor) -> Tensor:
        r"""The product :math:`\mathbf{J}^\top u` with a cotangent ``[N, F]``."""
        return self._differentiate(self._y, self._x, cotangent)

    @torch.inference_mode(False)
    def _differentiate(self, output: Tensor | None, variable: Tensor, vector: Tensor) -> Tensor:
        if output is None or self._pullback is None:
            return torch.zeros_like(vector)
        (product,) = torch.autograd.grad(
            output, variable, vector, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return product.detach()


def random_vector(shape: Sequence[int], like: Tensor, seed: int) -> Tensor:
    r"""Normal numbers with the dtype and on the device of ``like``; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(like)


def largest_per_graph(values: Tensor, graphs: Tensor, num_graphs: int) -> Tensor:
    r"""The largest non-negative value of each graph, 0 where there is none."""
    return values.new_zeros(num_graphs).scatter_reduce(0, graphs, values, "amax")


def normalize_per_graph(vectors: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Scale ``vectors [K, N, F]`` to length 1 per graph, over all ``K``; zeros stay zeros."""
    norm = _graph_norm(vectors, batch, num_graphs)
    return _scale(vectors, torch.where(norm > 0, norm, 1).reciprocal(), batch)


def _graph_norm(vectors: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    per_node = vectors.double().square().sum(-1).sum_to_size(vectors.size(-2))
    return per_node.new_zeros(num_graphs).index_add(0, batch, per_node).sqrt()


def _graph_dot(left: Tensor, right: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Inner products ``[K, B]`` per graph of ``left [K, N, F]`` with ``right [N, F]``."""
    per_node = (left * right).sum(-1).double()
    return per_node.new_zeros(len(per_node), num_graphs).index_add(1, batch, per_node)


def ritz_values(
    operator: Callable[[Tensor], Tensor],
    start: Tensor,
    batch: Tensor,
    num_graphs: int,
    dimension: int,
) -> tuple[Tensor, Tensor]:
    r"""Approximate eigenvalues of an operator that does not mix graphs, by Arnoldi's method.

    For each graph an orthonormal basis of the span of :math:`v, \mathbf{J} v, \mathbf{J}^2 v,
    \dots` is built from the start :math:`v`, and the eigenvalues of :math:`\mathbf{J}` projected
    onto it are returned, complex ``[M]``, with the graph ``[M]`` of each. They are exact once the
    basis is complete. A graph on which the start is zero has none.
    """
    threshold = 10 * torch.finfo(start.dtype).eps
    H = torch.zeros(num_graphs, dimension + 1, dimension, dtype=torch.float64, device=start.device)
    basis = start.new_zeros(dimension, *start.shape)  # [K, N, F]

    norm = _graph_norm(start, batch, num_graphs)  # [B]
    active = norm > 0
    size = torch.zeros(num_graphs, dtype=torch.long, device=start.device)
    vector = _scale(start, active / torch.where(active, norm, 1), batch)
    for k in range(dimension):
        basis[k] = vector
        size += active
        vector = operator(vector)
        before = _graph_norm(vector, batch, num_graphs)
        for _ in range(2):  # the second pass restores what rounding took from the first
            overlap = _graph_dot(basis[: k + 1], vector, batch, num_graphs)  # [K, B]
            H[:, : k + 1, k] += overlap.mT
            weights = overlap.to(vector.dtype)[:, batch].unsqueeze(-1)  # [K, N, 1]
            vector = vector - (weights * basis[: k + 1]).sum(0)
        after = _graph_norm(vector, batch, num_graphs)
        active = active & (after > threshold * before)
        H[:, k + 1, k] = torch.where(active, after, 0)
        vector = _scale(vector, active / torch.where(active, after, 1), batch)

    if not bool(torch.isfinite(norm).all() & torch.isfinite(H).all()):
        raise ValueError(
            "Expected the Jacobian of 'backbone' to be finite at 'point' (got infinite or "
            "undefined products); choose another point or check the weights"
        )
    values, graphs = [], []
    for count in sorted(set(size.tolist())):
        (members,) = (size == count).nonzero(as_tuple=True)
        values.append(eigenvalues(H[members, :count, :count]).flatten())
        graphs.append(members.repeat_interleave(count))
    if not values:  # no graph at all
        return torch.zeros(0, dtype=torch.complex128, device=start.device), size
    return torch.cat(values), torch.cat(graphs)


def _scale(vector: Tensor, factor: Tensor, batch: Tensor) -> Tensor:
    return vector * factor.to(vector.dtype)[batch].unsqueeze(-1)
