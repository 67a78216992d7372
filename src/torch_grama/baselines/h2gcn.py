"""H2GCN: separate, exact rings of neighbours and all intermediate states."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear

from torch_grama.baselines.fixed_product import propagate
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.hop_rings import HopRings
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.gcn_normalization import gcn_adjacency


class H2GCN(SizedModule):
    r"""The model of `"Beyond Homophily in Graph Neural Networks: Current Limitations and Effective
    Designs" <https://arxiv.org/abs/2006.11468>`_.

    .. math::
        \mathbf{R}^{(0)} = \sigma(\mathbf{X} \mathbf{W}_e), \qquad
        \mathbf{R}^{(k)} = \bar{\mathbf{A}}_1 \mathbf{R}^{(k-1)} \,\Vert\,
        \bar{\mathbf{A}}_2 \mathbf{R}^{(k-1)}, \qquad
        \mathbf{Y} = \big( \mathbf{R}^{(0)} \,\Vert\, \cdots \,\Vert\, \mathbf{R}^{(K)} \big)
        \mathbf{W}_c + \mathbf{b},

    where :math:`\bar{\mathbf{A}}_d = \mathbf{D}_d^{-1/2} \mathbf{A}_d \mathbf{D}_d^{-1/2}` holds
    the pairs that are exactly :math:`d` edges apart; no node is its own neighbour. The state
    doubles its width with every round.

    .. note::
        Edge weights are not used: the rings are sets. The second ring is found once for each graph
        and kept (see :obj:`cached`).

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of :math:`\mathbf{R}^{(0)}`.
        out_channels (int): Width of the output.
        num_layers (int): Number of rounds :math:`K`.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout before the last layer. (default: :obj:`0.0`)
        cached (bool, optional): Whether to remember the rings of each graph.
            (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        cached: bool = True,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        self.lin = Linear(in_channels, hidden_channels, bias=False)
        width = (2 ** (num_layers + 1) - 1) * hidden_channels
        self.head = GraphHead(width, out_channels, readout, num_layers=1)
        self.rings = HopRings(max_hops=2, cached=cached)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; edge weights and attributes are not used."""
        rings = self.rings.find(edge_index, x.size(0), batch, batch_size)
        matrices = [
            gcn_adjacency(ring, None, x.size(0), x.dtype, loop_weight=None) for ring in rings
        ]
        # [N, C] -> [N, F]
        state = F.relu(self.lin(x))
        states = [state]
        for _ in range(self.num_layers):
            # twice as wide as the last
            state = torch.cat([propagate(matrix, state) for matrix in matrices], dim=-1)
            states.append(state)
        # [N, (2^(K+1) - 1) F]
        h = F.dropout(torch.cat(states, dim=-1), self.dropout, self.training)
        out: Tensor = self.head(h, batch, batch_size)
        return out
