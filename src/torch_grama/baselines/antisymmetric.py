"""Models whose step is antisymmetric, in the channels (A-DGN) and over the graph (SWAN)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Unpack, cast

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter
from torch_geometric.nn import AntiSymmetricConv, Linear, MessagePassing
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import scatter

from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.baselines.products import apply_linear_map, propagate, weigh_without_loops
from torch_grama.nn.arguments import Activation, choose, resolve_activation
from torch_grama.nn.engine.adjacency import Adjacency, LinearMap, value_type
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency, sum_adjacency

AGGREGATIONS = {"sum": "sum of the mapped neighbours", "gcn": "graph convolution"}


class AntisymmetricModel(EncodedModel):
    r"""Steps that share their weights or not.

    Args:
        num_layers (int): Number of steps.
        act (str or callable, optional): The activation :math:`\sigma`, which the theory wants
            monotone.
        epsilon (float, optional): The step size.
        gamma (float, optional): The strength of the diffusion.
    """

    shown = ("aggregation",)


class ADGN(AntisymmetricModel):
    r"""Steps that are antisymmetric in the channels:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{x}_i + \epsilon \, \sigma \left( (\mathbf{W} -
        \mathbf{W}^{\top} - \gamma \mathbf{I}) \, \mathbf{x}_i + \Phi(\mathbf{X})_i + \mathbf{b}
        \right),

    where :math:`\Phi` is the plain sum :math:`\sum_{j \in \mathcal{N}(i)} \mathbf{V} \mathbf{x}_j`
    or the graph convolution :math:`\sum_j \hat{a}_{ij} \mathbf{V} \mathbf{x}_j`.

    Args:
        aggregation (str, optional): ``"sum"`` or ``"gcn"``.
    """

    card = Card(
        equation="x_i += epsilon tanh((W - W^T - gamma I) x_i + sum_j V x_j + b)",
        reference="Gravina et al., Anti-Symmetric DGN: a stable architecture for Deep Graph "
        "Networks, 2023 (arXiv:2210.09789)",
        cost="N F^2 + E F",
        source="torch_geometric.nn.AntiSymmetricConv",
        departures=(
            "The bias starts at zero, as PyG has it.",
            "The readout is that of all models here; the paper joins sum, maximum and mean of the "
            "nodes for graph tasks.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        act: str | Activation | None = "tanh",
        aggregation: str = "gcn",
        epsilon: float = 0.1,
        gamma: float = 0.1,
        weight_sharing: bool = True,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        choose("aggregation", aggregation, AGGREGATIONS)
        super().__init__(*sizes, **shared)
        self.aggregation = aggregation
        steps = self.num_layers if weight_sharing else 1
        step = (steps, epsilon, gamma, resolve_activation(act))
        self.convs = ModuleList()
        for _ in range(self.num_layers // steps):
            # PyG asks for a message-passing class and calls no more of it than any module has
            term = cast(MessagePassing, _NeighborTerm(self.hidden_channels, aggregation))
            self.convs.append(AntiSymmetricConv(self.hidden_channels, term, *step))

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        matrix = _term_matrix(self.aggregation, graph, x.dtype)
        for conv in self.convs:
            x = conv(x, matrix)
        return x


class _NeighborTerm(Module):
    r"""The weighted sum of the neighbours after a linear map."""

    def __init__(self, channels: int, aggregation: str) -> None:
        super().__init__()
        start = "glorot" if aggregation == "gcn" else None
        self.lin = Linear(channels, channels, bias=False, weight_initializer=start)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor, matrix: Adjacency) -> Tensor:
        return propagate(matrix, self.lin(x))


def _term_matrix(aggregation: str, graph: GraphInput, dtype: torch.dtype) -> Adjacency:
    if aggregation == "gcn":
        return shared_gcn_adjacency(graph, dtype)
    if aggregation == "sum":
        return sum_adjacency(graph.edge_index, graph.edge_weight, graph.num_nodes, dtype)
    return symmetric_matrix(graph, dtype)


TERMS = {
    "antisymmetric": "symmetric matrix, antisymmetric weights: non-dissipative as a whole",
    "gcn": "graph convolution: bounded",
    "sum": "sum of the mapped neighbours: bounded",
}


class SWAN(AntisymmetricModel):
    r""":class:`~torch_grama.baselines.ADGN` with a term that is antisymmetric over the graph:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{x}_i + \epsilon \, \sigma \Big( (\mathbf{W} -
        \mathbf{W}^{\top} - \gamma \mathbf{I}) \, \mathbf{x}_i + \sum_j \hat{a}_{ij} (\mathbf{V} -
        \mathbf{V}^{\top}) \, \mathbf{x}_j + \beta \sum_j \tilde{a}_{ij} (\mathbf{U} +
        \mathbf{U}^{\top}) \, \mathbf{x}_j + \mathbf{b} \Big),

    where :math:`\hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` is symmetric and
    :math:`\tilde{\mathbf{A}} = \mathbf{D}^{-1} \mathbf{A} - (\mathbf{D}^{-1} \mathbf{A})^{\top}`
    antisymmetric, also for directed graphs. With :math:`\gamma = 0`, the linear map of all nodes
    together is antisymmetric. On a graph whose nodes all have the same degree, such as a ring,
    :math:`\tilde{\mathbf{A}}` is zero and :math:`\beta` has no effect.

    Args:
        aggregation (str, optional): The second term: ``"antisymmetric"``, or the bounded variants
            ``"gcn"`` and ``"sum"``.
        beta (float, optional): The weight of the third term.
    """

    card = Card(
        equation="x_i += epsilon tanh((W - W^T - gamma I) x_i + sum_j a_ij (V - V^T) x_j + beta "
        "sum_j (p_ij - p_ji) (U + U^T) x_j + b), p = D^-1 A",
        reference="Gravina et al., On Oversquashing in Graph Neural Networks Through the Lens of "
        "Dynamical Systems, 2025 (arXiv:2405.01009)",
        cost="N F^2 + E F",
        departures=(
            "Both matrices follow the equations where the released code errs on edge weights.",
            "The variant with learned matrices is not provided.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        act: str | Activation | None = "tanh",
        aggregation: str = "antisymmetric",
        epsilon: float = 0.1,
        gamma: float = 0.1,
        beta: float = 1.0,
        weight_sharing: bool = True,
        **shared: Unpack[EncodedOptions],
    ) -> None:
        choose("aggregation", aggregation, TERMS)
        super().__init__(*sizes, **shared)
        self.aggregation, self.epsilon = aggregation, epsilon
        self.act = resolve_activation(act)
        self.fields = ModuleList(
            SWANField(self.hidden_channels, aggregation, gamma, beta)
            for _ in range(1 if weight_sharing else self.num_layers)
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        near = _term_matrix(self.aggregation, graph, x.dtype)
        space = antisymmetric_matrix(graph, x.dtype)
        maps = [field.maps(near, space) for field in cast(Iterable[SWANField], self.fields)]
        for number in range(self.num_layers):
            terms = maps[number % len(maps)]
            change = apply_linear_map(terms[0], x) + apply_linear_map(terms[1], x)
            x = x + self.epsilon * self.act(change)
        return x


class SWANField(Module):
    r"""The affine map inside the activation of :class:`SWAN`."""

    def __init__(self, channels: int, aggregation: str, gamma: float, beta: float) -> None:
        super().__init__()
        self.aggregation, self.gamma, self.beta = aggregation, gamma, beta
        self.own_weight = Parameter(torch.empty(channels, channels))
        self.space_weight = Parameter(torch.empty(channels, channels))
        self.neighbor_weight = Parameter(torch.empty(channels, channels))
        self.bias = Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.own_weight, self.space_weight, self.neighbor_weight):
            torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        if self.aggregation == "gcn":
            glorot(self.neighbor_weight)
        torch.nn.init.zeros_(self.bias)

    def maps(self, near: Adjacency, space: Adjacency) -> tuple[LinearMap, LinearMap]:
        r"""Returns the two linear maps whose sum it is; steps that share weights share them."""
        identity = torch.eye(len(self.bias), dtype=self.bias.dtype, device=self.bias.device)
        # [F, F], each read as x @ W^T
        own = self.own_weight - self.own_weight.t() - self.gamma * identity
        neighbor: Tensor = self.neighbor_weight
        if self.aggregation == "antisymmetric":
            neighbor = neighbor - neighbor.t()
        symmetric = self.beta * (self.space_weight + self.space_weight.t())
        return LinearMap(near, neighbor.t(), own.t(), self.bias), LinearMap(space, symmetric)


def symmetric_matrix(graph: GraphInput, dtype: torch.dtype) -> Adjacency:
    r"""Returns :math:`\mathbf{D}^{-1/2} \mathbf{S} \mathbf{D}^{-1/2}`, where :math:`\mathbf{S} =
    (\mathbf{A} + \mathbf{A}^{\top}) / 2` without self-loops.
    """
    weight = weigh_without_loops(graph.edge_index, graph.edge_weight, value_type(dtype))
    source, target = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = torch.cat([weight, weight]) / 2
    degree = scatter(weight, target, dim_size=graph.num_nodes, reduce="sum")
    scale = _power(degree, -0.5)
    return Adjacency(target, source, scale[source] * weight * scale[target], graph.num_nodes)


def antisymmetric_matrix(graph: GraphInput, dtype: torch.dtype) -> Adjacency:
    r"""Returns :math:`\mathbf{P} - \mathbf{P}^{\top}`, where :math:`\mathbf{P} = \mathbf{D}^{-1}
    \mathbf{A}` without self-loops.
    """
    weight = weigh_without_loops(graph.edge_index, graph.edge_weight, value_type(dtype))
    source, target = graph.edge_index
    degree = scatter(weight, target, dim_size=graph.num_nodes, reduce="sum")
    weight = _power(degree, -1.0)[target] * weight
    ends = torch.cat([target, source]), torch.cat([source, target])
    return Adjacency(*ends, torch.cat([weight, -weight]), graph.num_nodes)


def _power(degree: Tensor, exponent: float) -> Tensor:
    # zero for nodes without edges; the inner choice keeps the gradient finite
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1.0).pow(exponent), 0.0)
