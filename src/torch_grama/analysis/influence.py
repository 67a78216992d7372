"""How far information travels: the dependence of outputs on inputs, by distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis.hops import UNREACHABLE, hop_distance
from torch_grama.analysis.inputs import Graphs, ModelInput, check_batch, check_count, read_input
from torch_grama.analysis.node_jacobian import JacobianDraw, NodeJacobian, Norm
from torch_grama.analysis.records import Row, plain_number, plain_row
from torch_grama.nn.subnormals import flush_subnormals

# Up to this many backward passes the Jacobian is taken as a whole.
_EXACT_PASSES = 512

# The largest distance of the lists.
_MAX_HOPS = 64


@dataclass(frozen=True)
class Influence:
    r"""Influence by distance, see :func:`influence_by_distance`. Entry :math:`k` of a list belongs
    to :math:`k` hops."""

    total: Row  #: influence :math:`T_k` of all nodes at that distance together
    total_error: Row  #: half-width of its 95 % confidence interval; empty where it is exact
    mean: Row  #: influence :math:`T_k / n_k` of one node at that distance
    num_nodes: Row  #: mean number :math:`n_k` of nodes at that distance
    beyond: float  #: influence of all nodes further away than the list reaches
    #: influence of nodes of the same graph from which no path leads to the output
    unreachable: float
    influence_range: float  #: the mean distance :math:`\rho`, weighted by influence
    #: half-width of its 95 % confidence interval; None where exact
    influence_range_error: float | None
    exact: bool  #: whether every node was differentiated, without estimation
    num_samples: int  #: number of nodes of each graph that were (of the largest graph, where exact)
    seed: int  #: seed of the sampling


@flush_subnormals()
def influence_by_distance(
    model: Module,
    data: Graphs,
    *,
    exact: bool | None = None,
    num_samples: int = 32,
    seed: int = 0,
    norm: Norm = "square",
) -> Influence:
    r"""How strongly the output of a node depends on the inputs of nodes :math:`k` hops away

    .. math::
        T_k = \frac{1}{N} \sum_v \sum_{u : d(u, v) = k}
        \left\| \frac{\partial \mathbf{y}_v}{\partial \mathbf{x}_u} \right\|_F^2, \qquad
        \rho = \frac{\sum_{v, u} d(u, v) \, \| \partial \mathbf{y}_v / \partial \mathbf{x}_u
        \|_F^2}{\sum_{v, u} \| \partial \mathbf{y}_v / \partial \mathbf{x}_u \|_F^2}

    where :math:`d(u, v)` is the number of edges on the shortest path from :math:`u` to :math:`v`.
    If independent noise of variance :math:`\varepsilon^2` is added to every input,
    :math:`\varepsilon^2 T_k` is, to first order, the variance of a node's output that comes from
    :math:`k` hops away; the *influence range* :math:`\rho` is the mean distance from which variance
    arrives, in hops, whatever the scale of the output. Pairs without a path are left out. For
    several graphs, the means over the nodes of each graph are averaged.

    Small graphs are computed exactly, with one backward pass for every node and output channel. For
    large ones random nodes are drawn, with one backward pass each through random signs of the
    outputs: an unbiased estimate, whose spread gives the confidence intervals.

    Args:
        model (Module): Any model with the common call ``model(x, edge_index, edge_weight,
            edge_attr, batch, batch_size)``; it is run in evaluation mode. Integer features are
            differentiated behind its ``node_encoder``, and a model with one output per graph is
            read out node by node.
        data (ModelInput, Data, Batch or sequence): The graphs.
        exact (bool, optional): Whether to differentiate every node. (default: whether that takes at
            most 512 backward passes)
        num_samples (int, optional): Number of nodes to draw in each graph. (default: :obj:`32`)
        seed (int, optional): Seed of the sampling. (default: :obj:`0`)
        norm (str, optional): ``"square"`` as above, or ``"absolute"`` for the sum of the absolute
            entries of the Jacobian, as :func:`torch_geometric.utils.total_influence` has it; then
            :math:`\rho` is the mean over the nodes of each one's own mean distance.
            (default: :obj:`"square"`)

    Example:
        >>> from torch_grama.analysis import ModelInput
        >>> from torch_grama.nn import GRAMA
        >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
        >>> model = GRAMA(3, 8, 2, seq_len=2, num_blocks=1)
        >>> influence = influence_by_distance(model, ModelInput(torch.randn(6, 3), ring))
        >>> len(influence.total), influence.exact
        (6, True)
    """
    check_count("num_samples", num_samples, minimum=2)
    inputs = read_input(data)
    jacobian = NodeJacobian(model, inputs, norm)
    exact = jacobian.num_passes <= _EXACT_PASSES if exact is None else exact
    draws = list(jacobian.draw_all() if exact else jacobian.draw_sample(num_samples, seed))
    return _summarize(inputs, draws, exact, seed, norm, jacobian.hops)


def influence_of_task(
    matrices: Sequence[Tensor], data: Graphs, *, norm: Norm = "square"
) -> Influence:
    r"""The range that a task needs, where the derivatives of its targets by its inputs are known.

    Args:
        matrices (sequence of Tensor): For each graph the sizes :math:`(N, N)` of
            :math:`\partial y_v / \partial x_u`, a row for each target.
        data (ModelInput, Data, Batch or sequence): The graphs.
        norm (str, optional): As for :func:`influence_by_distance`. (default: :obj:`"square"`)
    """
    inputs = read_input(data)
    sizes = torch.tensor([len(matrix) for matrix in matrices])
    first = sizes.cumsum(0) - sizes
    draws = []
    for index in range(int(sizes.max())):
        strength = torch.cat(
            [m[index] if index < len(m) else m.new_zeros(len(m)) for m in matrices]
        ).double()
        nodes = (first + index)[sizes > index].to(inputs.edge_index.device)
        draws.append(JacobianDraw(nodes, strength.square() if norm == "square" else strength))
    return _summarize(inputs, draws, True, 0, norm)


def _summarize(
    inputs: ModelInput,
    draws: Sequence[JacobianDraw],
    exact: bool,
    seed: int,
    norm: Norm,
    hops: Tensor | None = None,
) -> Influence:
    if hops is not None:
        distance = torch.stack([hops[draw.nodes].amax(0) for draw in draws])
    else:
        device = inputs.edge_index.device
        goals = torch.zeros(len(draws), inputs.num_nodes, dtype=torch.bool, device=device)
        for row, draw in zip(goals, draws, strict=True):
            row[draw.nodes] = True
        distance = hop_distance(inputs.edge_index, inputs.num_nodes, goals)
    graph, num_graphs = check_batch(inputs.x, inputs.batch, inputs.batch_size)
    shells = _Shells(graph, num_graphs, draws, distance.cpu())
    total, error = shells.estimate(shells.influence)
    num_nodes, _ = shells.estimate(shells.members)
    reach = int(num_nodes[: _MAX_HOPS + 1].nonzero().max()) + 1 if draws else 0
    quotient, quotient_error = shells.estimate_range(by_node=norm == "absolute")
    return Influence(
        total=plain_row(total[:reach]),
        total_error=[] if exact else plain_row(error[:reach]),
        mean=plain_row(total[:reach] / num_nodes[:reach]),
        num_nodes=plain_row(num_nodes[:reach]),
        beyond=plain_number(total[_MAX_HOPS + 1]),
        unreachable=plain_number(total[_MAX_HOPS + 2]),
        influence_range=plain_number(quotient),
        influence_range_error=None if exact else plain_number(quotient_error),
        exact=exact,
        num_samples=len(draws),
        seed=seed,
    )


def confidence(values: Tensor) -> Tensor:
    r"""Half-widths ``[...]`` of the 95 % interval of the mean of ``values [D, ...]``, by Student's
    distribution."""
    num_draws = len(values)
    if num_draws < 2:
        return torch.full(values.shape[1:], math.inf, dtype=values.dtype)
    z, freedom = 1.959964, num_draws - 1
    # the expansion of Student's quantile in powers of one over the degrees of freedom
    quantile = (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
    return values.std(0) * quantile / math.sqrt(num_draws)


class _Shells:
    r"""Influence and nodes by distance: hops 0 to the largest, then beyond, then unreachable."""

    def __init__(
        self, graph: Tensor, num_graphs: int, draws: Sequence[JacobianDraw], hops: Tensor
    ) -> None:
        # D draws, N nodes, B graphs, K shells
        D, B, K = len(draws), num_graphs, _MAX_HOPS + 3
        graph = graph.cpu().expand(D, -1)
        squares = torch.zeros(hops.shape, dtype=torch.float64)
        for row, draw in zip(squares, draws, strict=True):
            row.copy_(draw.strength)
        lost = hops == UNREACHABLE
        shell = torch.where(lost, K - 1, hops.clamp(max=K - 2))
        reached = squares.masked_fill(lost, 0)
        self.influence = _sum(graph * K + shell, squares, B * K).view(D, B, K)
        self.members = _sum(graph * K + shell, torch.ones_like(squares), B * K).view(D, B, K)
        self._moments = _sum(graph, reached * hops, B)
        self._weights = _sum(graph, reached, B)
        self._drawn = _sum(graph, (hops == 0).double(), B) > 0

    def estimate(self, values: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean ``[K]`` over the nodes of each graph, then over graphs; and its confidence."""
        values = values * self._drawn.unsqueeze(-1)
        count = self._drawn.sum(0)
        present = count > 0
        if not bool(present.any()):
            return values.new_zeros(values.size(-1)), values.new_zeros(values.size(-1))
        per_graph = values.sum(0)[present] / count[present].unsqueeze(-1)
        return per_graph.mean(0), confidence(values[:, present].mean(1))

    def estimate_range(self, *, by_node: bool) -> tuple[float, float]:
        r"""The weighted mean distance, of all nodes together or of each, and its confidence."""
        if by_node:
            own = self._moments / self._weights.clamp(min=torch.finfo(torch.float64).tiny)
            mean, spread = self.estimate(own.unsqueeze(-1))
            return float(mean), float(spread)
        moment, _ = self.estimate(self._moments.unsqueeze(-1))
        weight, _ = self.estimate(self._weights.unsqueeze(-1))
        if float(weight) == 0:
            return 0.0, 0.0
        quotient = moment / weight
        deviation = (self._moments - quotient * self._weights) / weight
        _, error = self.estimate(deviation.unsqueeze(-1))
        return float(quotient), float(error)


def _sum(places: Tensor, values: Tensor, size: int) -> Tensor:
    r"""Sums ``[D, size]`` of the values ``[D, N]`` by their places ``[D, N]``."""
    return values.new_zeros(len(values), size).scatter_add(1, places, values)
