"""Krylov subspaces of all graphs of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_grama.analysis.eigenvalues import eigenvalues


def random_vector(shape: Sequence[int], like: Tensor, seed: int) -> Tensor:
    r"""Normal numbers with the dtype and on the device of ``like``; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(like)


def largest_per_graph(values: Tensor, graphs: Tensor, num_graphs: int) -> Tensor:
    r"""The largest of the non-negative ``values [M]`` of each graph, 0 where there is none."""
    return values.new_zeros(num_graphs).scatter_reduce(0, graphs, values, "amax")


def normalize_per_graph(vectors: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Scale ``vectors [K, N, F]`` to length 1 per graph, over all ``K``; zeros stay zeros."""
    per_node = vectors.double().square().sum((0, 2))
    norm = per_node.new_zeros(num_graphs).index_add(0, batch, per_node).sqrt()
    return _scale(vectors, torch.where(norm > 0, norm, 1).reciprocal(), batch)


def graph_dot(left: Tensor, right: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Inner products ``[K, B]`` per graph of ``left [K, N, F]`` with ``right [N, F]``, summed in
    float64."""
    per_node = (left * right).sum(-1).double()
    zeros = per_node.new_zeros(len(per_node), num_graphs)
    return zeros.index_add(1, batch, per_node)


def ritz_values(
    operator: Callable[[Tensor], Tensor],
    start: Tensor,
    batch: Tensor,
    num_graphs: int,
    dimension: int,
) -> tuple[Tensor, Tensor]:
    r"""Approximate eigenvalues of an operator that does not mix graphs, by Arnoldi's method.

    For each graph an orthonormal basis of the span of :math:`v, \mathbf{J} v, \mathbf{J}^2 v,
    \dots` is built, and the eigenvalues of :math:`\mathbf{J}` projected onto it are returned. They
    are exact once the basis is complete, which a graph with few nodes reaches early.

    Args:
        operator (callable): A linear map from ``[N, F]`` to ``[N, F]``.
        start (Tensor): The vector :math:`v`, ``[N, F]``. A graph on which it is zero has no
            eigenvalues.
        batch (Tensor): The graph of each node, ``[N]``.
        num_graphs (int): Number of graphs :math:`B`.
        dimension (int): Largest dimension of a basis.

    Returns:
        tuple: The values, complex ``[M]`` in no particular order, and the graph ``[M]`` of each.
    """
    threshold = 10 * torch.finfo(start.dtype).eps
    H = torch.zeros(num_graphs, dimension + 1, dimension, dtype=torch.float64, device=start.device)
    basis = start.new_zeros(dimension, *start.shape)  # [K, N, F]

    norm = graph_dot(start.unsqueeze(0), start, batch, num_graphs)[0].sqrt()  # [B]
    active = norm > 0
    size = torch.zeros(num_graphs, dtype=torch.long, device=start.device)
    vector = _scale(start, active / torch.where(active, norm, 1), batch)
    for k in range(dimension):
        basis[k] = vector
        size += active
        vector = operator(vector)
        before = graph_dot(vector.unsqueeze(0), vector, batch, num_graphs)[0].sqrt()
        for _ in range(2):  # the second pass restores what rounding took from the first
            overlap = graph_dot(basis[: k + 1], vector, batch, num_graphs)  # [K, B]
            H[:, : k + 1, k] += overlap.mT
            weights = overlap.to(vector.dtype)[:, batch].unsqueeze(-1)  # [K, N, 1]
            vector = vector - (weights * basis[: k + 1]).sum(0)
        after = graph_dot(vector.unsqueeze(0), vector, batch, num_graphs)[0].sqrt()
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
