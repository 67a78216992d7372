"""Effective resistance, and influence against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis._checks import check_count
from torch_grama.analysis.model_input import GraphLike, ModelInput, read_input
from torch_grama.analysis.node_jacobian import NodeJacobian
from torch_grama.analysis.plain_numbers import Row, plain_row

# Up to this many nodes the Laplacian is inverted; beyond, systems are solved.
_DENSE_NODES = 1500


@dataclass(frozen=True)
class ResistanceInfluence:
    r"""Influence by effective resistance; entry :math:`k` belongs to the bin between the edges
    :math:`k` and :math:`k + 1`.

    Attributes:
        edges: Bounds of the bins, one more than there are bins.
        mean: Mean influence (squared norm of the derivative) of the pairs in each bin.
        num_pairs: Number of pairs in each bin.
        correlation: Correlation of the logarithm of the influence with the resistance over all
            pairs of different nodes with any influence; 0 where it is undefined.
        exact: Whether resistances are exact, and not estimated by random projections.
    """

    edges: Row
    mean: Row
    num_pairs: list[int]
    correlation: float
    exact: bool


def effective_resistance(
    edge_index: Tensor,
    num_nodes: int,
    nodes: Tensor,
    edge_weight: Tensor | None = None,
    *,
    exact: bool | None = None,
    num_projections: int = 128,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> Tensor:
    r"""The effective resistance between nodes of a graph whose edges are unit resistors

    .. math::
        R_{uv} = (\mathbf{e}_u - \mathbf{e}_v)^\top \mathbf{L}^+ (\mathbf{e}_u - \mathbf{e}_v)

    where :math:`\mathbf{L}` is the Laplacian of the graph without directions, and edge weights are
    conductances. Many short paths make it small; a bottleneck makes it large, and messages hard to
    pass.

    For large graphs, :math:`R_{uv} = \|\mathbf{Z} (\mathbf{e}_u - \mathbf{e}_v)\|^2` is estimated
    with :math:`\mathbf{Z} = \mathbf{Q} \mathbf{W}^{1/2} \mathbf{B} \mathbf{L}^+`, where
    :math:`\mathbf{B}` is the incidence matrix and :math:`\mathbf{Q}` has random signs: as many
    systems are solved by conjugate gradients as there are projections :math:`P`, and the estimate
    is unbiased with a relative error of about :math:`\sqrt{2 / P}`.

    Args:
        edge_index (Tensor): Edges; both directions of one edge count once.
        num_nodes (int): Number of nodes :math:`N`.
        nodes (Tensor): The nodes :math:`v` from which resistances are wanted, int64.
        edge_weight (Tensor, optional): Positive conductances. (default: ones)
        exact (bool, optional): Whether to invert the Laplacian. (default: up to 1,500 nodes)
        num_projections (int, optional): Number :math:`P`. (default: :obj:`128`)
        tolerance (float, optional): Relative residual at which the solver stops.
            (default: :obj:`1e-6`)
        seed (int, optional): Seed of the projections. (default: :obj:`0`)

    Shapes:
        - **input:** edge_index :math:`(2, E)`, nodes :math:`(K)`, edge_weight :math:`(E)`
        - **output:** resistances :math:`(K, N)`, in float64; infinite between components

    Raises:
        ValueError: If a weight is not positive.

    Example:
        >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> effective_resistance(triangle, 3, torch.tensor([0]))
        tensor([[0.0000, 0.6667, 0.6667]], dtype=torch.float64)
    """
    check_count("num_projections", num_projections, minimum=1)
    edges, weight = _undirected(edge_index, num_nodes, edge_weight)
    exact = num_nodes <= _DENSE_NODES if exact is None else exact
    resistance: Tensor
    component = _components(edges, num_nodes)
    if exact:
        laplacian = torch.zeros(num_nodes, num_nodes, dtype=torch.float64, device=edges.device)
        laplacian.index_put_((edges[0], edges[1]), -weight, accumulate=True)
        laplacian = laplacian + laplacian.mT
        laplacian -= torch.diag(laplacian.sum(1))
        inverse = torch.linalg.pinv(laplacian, hermitian=True)
        diagonal = inverse.diagonal()
        resistance = diagonal[nodes].unsqueeze(1) + diagonal - 2 * inverse[nodes]
    else:
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(2, (edges.size(1), num_projections), generator=generator) * 2 - 1
        flow = signs.to(weight) * weight.sqrt().unsqueeze(1) / math.sqrt(num_projections)
        right = torch.zeros(num_nodes, num_projections, dtype=torch.float64, device=edges.device)
        right.index_add_(0, edges[0], flow).index_add_(0, edges[1], -flow)
        Z = _solve(edges, weight, right, tolerance)  # [N, P]
        resistance = torch.stack([(Z - Z[node]).square().sum(1) for node in nodes])
    apart = component[nodes].unsqueeze(1) != component
    return resistance.clamp(min=0).masked_fill(apart, math.inf)


def influence_by_resistance(
    model: Module,
    data: GraphLike | ModelInput | Sequence[GraphLike | ModelInput],
    *,
    num_samples: int = 16,
    num_bins: int = 12,
    exact: bool | None = None,
    num_projections: int = 128,
    seed: int = 0,
) -> ResistanceInfluence:
    r"""How the dependence of outputs on inputs falls with the effective resistance between nodes.

    Nodes are drawn as by :func:`influence_by_distance`, whose model and data it takes. Pairs of
    different nodes with a finite resistance are put into bins with about the same number of pairs.

    Args:
        model (Module): Any model with the common call.
        data (ModelInput, Data, Batch or sequence): The graphs.
        num_samples (int, optional): Number of nodes to draw in each graph. (default: :obj:`16`)
        num_bins (int, optional): Number of bins. (default: :obj:`12`)
        exact (bool, optional): See :func:`effective_resistance`. (default: :obj:`None`)
        num_projections (int, optional): Likewise. (default: :obj:`128`)
        seed (int, optional): Seed of both samplings. (default: :obj:`0`)

    Raises:
        ValueError: If the model cannot be differentiated, or a value is not usable.
    """
    check_count("num_samples", num_samples, minimum=1)
    check_count("num_bins", num_bins, minimum=1)
    inputs = read_input(data)
    jacobian = NodeJacobian(model, inputs)
    draws = list(jacobian.draw_sample(num_samples, seed))
    nodes = torch.cat([draw.nodes for draw in draws]).unique() if draws else inputs.batch
    exact = inputs.num_nodes <= _DENSE_NODES if exact is None else exact
    if nodes is None or not draws:
        return ResistanceInfluence([], [], [], 0.0, exact)
    resistance = effective_resistance(
        inputs.edge_index,
        inputs.num_nodes,
        nodes,
        exact=exact,
        num_projections=num_projections,
        seed=seed,
    )
    row_of = {int(node): row for row, node in enumerate(nodes)}
    far, strong = [], []
    for draw in draws:
        for node in draw.nodes.tolist():
            own = resistance[row_of[node]]
            chosen = torch.isfinite(own) & (jacobian.graph == jacobian.graph[node])
            chosen[node] = False
            far.append(own[chosen])
            strong.append(draw.squares[chosen])
    return _bin(torch.cat(far), torch.cat(strong), num_bins, exact)


def _bin(far: Tensor, strong: Tensor, num_bins: int, exact: bool) -> ResistanceInfluence:
    if len(far) == 0:
        return ResistanceInfluence([], [], [], 0.0, exact)
    place = torch.linspace(0, len(far) - 1, num_bins + 1).round().long()
    edges = far.sort().values[place.to(far.device)].unique()
    edges = edges if len(edges) > 1 else torch.cat([edges, edges])
    which = torch.bucketize(far, edges[1:-1].contiguous(), right=True)
    counts = torch.bincount(which, minlength=len(edges) - 1)
    sums = strong.new_zeros(len(edges) - 1).index_add(0, which, strong)
    felt = strong > 0
    correlation = 0.0
    if int(felt.sum()) > 1:
        pairs = torch.stack([far[felt], strong[felt].log()])
        if bool((pairs.std(1) > 0).all()):
            correlation = float(torch.corrcoef(pairs)[0, 1])
    return ResistanceInfluence(
        edges=plain_row(edges),
        mean=plain_row(sums / counts.clamp(min=1)),
        num_pairs=counts.tolist(),
        correlation=correlation,
        exact=exact,
    )


def _undirected(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    r"""Every pair of different nodes once ``[2, M]``, and its conductance ``[M]``."""
    if edge_weight is not None and not bool((edge_weight > 0).all()):
        raise ValueError(
            f"Expected positive 'edge_weight', which are conductances "
            f"(got {float(edge_weight.min()):g}); leave it out to count every edge alike"
        )
    low, high = edge_index.sort(dim=0).values
    weight = torch.ones_like(low, dtype=torch.float64) if edge_weight is None else edge_weight
    proper = low != high
    key, inverse = (low * num_nodes + high)[proper].unique(return_inverse=True)
    total = torch.zeros(len(key), dtype=torch.float64, device=key.device)
    # of parallel entries, such as the two directions, the largest counts
    total.scatter_reduce_(0, inverse, weight[proper].double(), "amax")
    return torch.stack([key // max(num_nodes, 1), key % max(num_nodes, 1)]), total


def _components(edges: Tensor, num_nodes: int) -> Tensor:
    r"""A label ``[N]`` of the connected component of each node: its smallest node."""
    label = torch.arange(num_nodes, device=edges.device)
    while True:
        smallest = label.scatter_reduce(0, edges[0], label[edges[1]], "amin")
        smallest = smallest.scatter_reduce(0, edges[1], smallest[edges[0]], "amin")
        smallest = smallest[smallest]  # jump: halves the way that is left
        if torch.equal(smallest, label):
            return label
        label = smallest


def _solve(edges: Tensor, weight: Tensor, right: Tensor, tolerance: float) -> Tensor:
    r"""Solves :math:`\mathbf{L} \mathbf{X} = \mathbf{Y}` for all columns by conjugate gradients.

    The right sides must sum to zero in every component; the diagonal is the preconditioner.
    """
    num_nodes = len(right)
    degree = right.new_zeros(num_nodes)
    degree.index_add_(0, edges[0], weight).index_add_(0, edges[1], weight)
    where = torch.cat([edges, edges.flip(0)], dim=1)
    adjacency = torch.sparse_coo_tensor(
        where, torch.cat([weight, weight]), (num_nodes, num_nodes), check_invariants=True
    ).coalesce()
    diagonal = degree.unsqueeze(1)
    scale = torch.where(diagonal > 0, diagonal, 1).reciprocal()
    x, residual = torch.zeros_like(right), right.clone()
    direction = scale * residual
    energy = (residual * direction).sum(0)
    goal = tolerance * right.norm(dim=0)
    for _ in range(10 * num_nodes):
        if bool((residual.norm(dim=0) <= goal).all()):
            break
        product = diagonal * direction - torch.sparse.mm(adjacency, direction)
        curvature = (direction * product).sum(0)
        step = torch.where(curvature > 0, energy / curvature, 0)
        x += step * direction
        residual -= step * product
        scaled = scale * residual
        fresh = (residual * scaled).sum(0)
        direction = scaled + torch.where(energy > 0, fresh / energy, 0) * direction
        energy = fresh
    return x
