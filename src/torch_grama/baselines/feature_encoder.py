"""From the features of a data set to states of the width of a model."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Dropout, Linear, Module, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import check_input_sizes, check_positive


class FeatureEncoder(Module):
    r"""A linear map of the node features and, for models with edge states, one of the edge
    attributes:

    .. math::
        \mathbf{x}_i \leftarrow \mathbf{W} \mathbf{x}_i + \mathbf{b}, \qquad
        \mathbf{e}_{ij} \leftarrow \mathbf{U} \mathbf{e}_{ij} + \mathbf{c}.

    A model with edge states that is given no edge attributes starts every edge from one learned
    vector.

    Args:
        in_channels (int): Width of the node features.
        channels (int): Width of the states.
        pre_linear (bool, optional): If :obj:`False`, features are taken as they are, such as those
            that an embedding table has already brought to the right width. (default: :obj:`True`)
        dropout (float, optional): Dropout after the map of the nodes. (default: :obj:`0.0`)
        edge_dim (int, optional): Width of the edge attributes. (default: :obj:`None`)
        edge_states (bool, optional): Whether the model has edge states even without edge
            attributes. (default: :obj:`False`)

    Shapes:
        - **input:** node features :math:`(N, C)`, edge attributes :math:`(E, D)` *(optional)*,
          number of edges
        - **output:** node states :math:`(N, F)`, edge states :math:`(E, F)` or :obj:`None`
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        pre_linear: bool = True,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        edge_states: bool = False,
    ) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, hidden_channels=channels, edge_dim=edge_dim)
        check_input_sizes(in_channels, dropout)
        if not pre_linear and edge_dim not in (None, channels):
            raise ValueError(
                f"Expected edge attributes of the hidden width for pre_linear=False "
                f"(got edge_dim={edge_dim}, hidden_channels={channels})"
            )
        self.in_channels = in_channels
        self.channels = channels
        self.edge_dim = edge_dim
        self.node_lin = Linear(in_channels, channels) if pre_linear else None
        self.edge_lin = Linear(edge_dim, channels) if pre_linear and edge_dim is not None else None
        self.initial_edge = (
            Parameter(torch.empty(channels)) if edge_states and edge_dim is None else None
        )
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.node_lin)
        reset(self.edge_lin)
        if self.initial_edge is not None:
            torch.nn.init.normal_(self.initial_edge, std=0.1)

    def forward(
        self, x: Tensor, edge_attr: Tensor | None, num_edges: int
    ) -> tuple[Tensor, Tensor | None]:
        r"""Returns node states and edge states.

        Raises:
            ValueError: If features are missing or have another width.
        """
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"Expected 'x' of shape [num_nodes, in_channels={self.in_channels}] "
                f"(got {list(x.size())})"
            )
        if self.node_lin is not None:
            x = self.dropout(self.node_lin(x))
        if self.initial_edge is not None:
            return x, self.initial_edge.expand(num_edges, -1)
        if self.edge_dim is None:
            return x, None
        if edge_attr is None or edge_attr.size(-1) != self.edge_dim:
            got = None if edge_attr is None else list(edge_attr.size())
            raise ValueError(
                f"Expected 'edge_attr' of shape [num_edges, edge_dim={self.edge_dim}] (got {got})"
            )
        return x, edge_attr if self.edge_lin is None else self.edge_lin(edge_attr)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.channels})"
