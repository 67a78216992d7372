"""Blocks of steps that share their weights: waves on the graph, and a linear recurrence."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, ModuleList
from torch_geometric.nn.models import MLP
from torch_geometric.utils import scatter

from torch_grama.baselines.branch_stack import EdgeOptions
from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.baselines.products import propagate, sum_neighbors, weigh_without_loops
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import shared_gcn_adjacency


class SONAR(EncodedModel):
    r"""The model of `"SONAR: Long-Range Graph Propagation Through Information Waves"
    <https://openreview.net/forum?id=Hxfjmc95rl>`_, a wave equation on the graph in steps of length
    :math:`\epsilon`:

    .. math::
        \mathbf{V}_{t+1} &= \mathbf{V}_t - \epsilon \left( \mathbf{L} \mathbf{X}_t \mathbf{W}
        + \mathbf{d}(\mathbf{X}_t) \odot \mathbf{V}_t - \mathbf{f}(\mathbf{X}_t) \right), \qquad
        \mathbf{X}_{t+1} = \mathbf{X}_t + \epsilon \mathbf{V}_{t+1}, \\
        \mathbf{L} &= \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{R} \mathbf{D}^{-1/2}, \qquad
        R_{ij} = a_{ij} \left| \mathrm{MLP}([\mathbf{x}_j, \mathbf{x}_i, \mathbf{e}_{ij}]) \right|,

    from the velocity :math:`\mathbf{V}_0 = 0`, where :math:`a_{ij}` are the edge weights,
    :math:`\mathbf{D}` holds the sums of :math:`\mathbf{R}` over incoming edges,
    :math:`\mathbf{d} \ge 0` is the damping, one layer with ReLU, and :math:`\mathbf{f}` the outer
    force, an MLP of two layers. A block of :math:`T` steps ends with an MLP.

    Args:
        num_layers (int): Steps :math:`T` of a block.
        num_blocks (int, optional): Number of blocks.
        epsilon (float, optional): The step :math:`\epsilon`.
        damping (bool, optional): Whether there is :math:`\mathbf{d}`; without both this and the
            force, energy is conserved.
        forcing (bool, optional): Whether there is :math:`\mathbf{f}`.
    """

    card = Card(
        equation="V' = V - eps (L X W + d(X) * V - f(X)), X' = X + eps V', L of the edges' "
        "resistances, then X = MLP(X)",
        reference="Trenta et al., SONAR: Long-Range Graph Propagation Through Information Waves, "
        "2025",
        cost="N F^2 + E F",
        takes_edge_attr=True,
        departures=(
            "Of the Laplacians that the authors try, this is the symmetrically normalised one.",
            "Resistances are computed once per block, and edge weights multiply them.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        num_blocks: int = 1,
        epsilon: float = 0.1,
        damping: bool = True,
        forcing: bool = True,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        check_positive(num_blocks=num_blocks)
        if not epsilon > 0:
            raise ValueError(f"Expected 'epsilon' to be above 0 (got {epsilon})")
        super().__init__(*sizes, **shared)
        options = (self.num_layers, epsilon, damping, forcing, self.edge_dim is not None)
        self.blocks = ModuleList(
            [_WaveBlock(self.hidden_channels, *options) for _ in range(num_blocks)]
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        weight = weigh_without_loops(graph.edge_index, graph.edge_weight, x.dtype)
        for block in self.blocks:
            x = F.dropout(block(x, graph, weight), self.dropout, self.training)
        return x


class _WaveBlock(Module):
    def __init__(
        self,
        channels: int,
        num_steps: int,
        epsilon: float,
        damping: bool,
        forcing: bool,
        has_edge_attr: bool,
    ) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.epsilon = epsilon
        # the first layer of the resistance, in parts: source, target, edge
        self.source_lin = Linear(channels, channels)
        self.target_lin = Linear(channels, channels, bias=False)
        self.edge_lin = Linear(channels, channels, bias=False) if has_edge_attr else None
        self.resistance_lin = Linear(channels, 1)
        self.lin = Linear(channels, channels, bias=False)
        self.damping = Linear(channels, channels) if damping else None
        self.force = MLP([channels] * 3, norm=None) if forcing else None
        self.mlp = MLP([channels] * 3, norm=None)

    def forward(self, x: Tensor, graph: GraphInput, weight: Tensor) -> Tensor:
        edge_index, eps = graph.edge_index, self.epsilon
        laplacian = self._normalise(self._resist(x, graph) * weight, edge_index, x.size(0))
        velocity = torch.zeros_like(x)
        for _ in range(self.num_steps):
            moved = self.lin(x)
            change = moved - sum_neighbors(moved, edge_index, laplacian)
            if self.damping is not None:
                change = change + F.relu(self.damping(x)) * velocity
            if self.force is not None:
                change = change - self.force(x)
            velocity = velocity - eps * change
            x = x + eps * velocity
        out: Tensor = self.mlp(x)
        return out

    def _resist(self, x: Tensor, graph: GraphInput) -> Tensor:
        """The resistance of each edge [E]."""
        source, target = graph.edge_index
        hidden = self.source_lin(x)[source] + self.target_lin(x)[target]
        if self.edge_lin is not None:
            hidden = hidden + self.edge_lin(graph.edge_attr)
        resistance: Tensor = self.resistance_lin(F.relu(hidden)).squeeze(-1).abs()
        return resistance

    def _normalise(self, resistance: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Divides by the roots of the sums at both ends; a sum of zero leaves nothing to pass."""
        total = scatter(resistance, edge_index[1], dim_size=num_nodes, reduce="sum")
        scale = torch.where(total > 0, total.clamp(min=1e-12).rsqrt(), 0.0)
        return scale[edge_index[0]] * resistance * scale[edge_index[1]]


class MPSSM(EncodedModel):
    r"""The model of `"Message-Passing State-Space Models: Improving Graph Learning with Modern
    Sequence Modeling" <https://arxiv.org/abs/2505.18728>`_:

    .. math::
        \mathbf{X}_{t+1} = \hat{\mathbf{A}} \mathbf{X}_t \mathbf{W} + \mathbf{U} \mathbf{B}, \qquad
        \mathbf{X}_0 = 0, \qquad \mathbf{Y} = \mathrm{MLP}(\mathbf{X}_T),

    where :math:`\hat{\mathbf{A}}` is the normalised adjacency matrix with self-loops and
    :math:`\mathbf{U}` the input of the block, the same at every step. Nothing between two steps is
    nonlinear, so that the Jacobian is a power of :math:`\hat{\mathbf{A}}` times one of
    :math:`\mathbf{W}`.

    Args:
        num_layers (int): Steps :math:`T` of a block.
        num_blocks (int, optional): Number of blocks.
    """

    card = Card(
        equation="X_(t+1) = A_hat X_t W + U B, U' = U + MLP(LN(X_T))",
        reference="Ceni et al., Message-Passing State-Space Models: Improving Graph Learning with "
        "Modern Sequence Modeling, 2025",
        cost="N F^2 + E F",
        departures=(
            "A block adds its output to its input, and the state is normalised before the MLP.",
            "The steps are computed one after another; the paper has a parallel form too.",
        ),
    )

    def __init__(self, *sizes: int, num_blocks: int = 1, **shared: Unpack[EncodedOptions]) -> None:
        check_positive(num_blocks=num_blocks)
        super().__init__(*sizes, **shared)
        self.blocks = ModuleList(
            [_LinearBlock(self.hidden_channels, self.num_layers) for _ in range(num_blocks)]
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        adjacency = shared_gcn_adjacency(graph, x.dtype)
        for block in self.blocks:
            x = x + F.dropout(block(x, adjacency), self.dropout, self.training)
        return x


class _LinearBlock(Module):
    def __init__(self, channels: int, num_steps: int) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.state_lin = Linear(channels, channels, bias=False)
        self.in_lin = Linear(channels, channels, bias=False)
        self.norm = LayerNorm(channels)
        self.mlp = MLP([channels, channels, channels], norm=None)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        given = self.in_lin(x)
        state = torch.zeros_like(given)
        for _ in range(self.num_steps):
            state = self.state_lin(propagate(adjacency, state)) + given
        out: Tensor = self.mlp(self.norm(state))
        return out
