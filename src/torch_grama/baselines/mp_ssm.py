"""The message-passing state-space model: a linear recurrence over the graph, then an MLP."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, ModuleList
from torch_geometric.nn.models import MLP

from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel, EncodedOptions
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import gcn_adjacency


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
        source="torch_grama",
        departures=(
            "A block adds its output to its input, and the state is normalised before the MLP.",
            "The steps are computed one after another; the paper has a parallel form too.",
        ),
    )

    def __init__(self, *sizes: int, num_blocks: int = 1, **shared: Unpack[EncodedOptions]) -> None:
        check_positive(num_blocks=num_blocks)
        super().__init__(*sizes, **shared)
        self.blocks = ModuleList(
            [_Block(self.hidden_channels, self.num_layers) for _ in range(num_blocks)]
        )

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the blocks."""
        adjacency = gcn_adjacency(graph.edge_index, graph.edge_weight, graph.num_nodes, x.dtype)
        for block in self.blocks:
            x = x + F.dropout(block(x, adjacency), self.dropout, self.training)
        return x


class _Block(Module):
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
