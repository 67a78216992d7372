"""FSGNN: features of all hops beside each other, each with a learned share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, ModuleList, Parameter
from torch_geometric.nn.inits import reset

from torch_grama.baselines.fixed_product import propagate
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.loop_weights import weigh_without_loops
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.linear_backbone import gcn_adjacency, sum_adjacency


class FSGNN(SizedModule):
    r"""The model of `"Improving Graph Neural Networks with Simple Architecture Design"
    <https://arxiv.org/abs/2105.07634>`_.

    .. math::
        \mathbf{Y} = \mathrm{ReLU} \Big( \big\Vert_{m} \; \alpha_m \, \mathrm{L2} \big(
        \mathbf{M}_m \mathbf{X} \mathbf{W}_m + \mathbf{b}_m \big) \Big) \mathbf{W} + \mathbf{b},
        \qquad \mathbf{M}_m \in \{ \mathbf{I}, \mathbf{A}, \tilde{\mathbf{A}}, \ldots,
        \mathbf{A}^K, \tilde{\mathbf{A}}^K \},

    where :math:`\mathbf{A}` has no self-loops and :math:`\tilde{\mathbf{A}}` has all of them, L2
    scales each row to length one, and :math:`\alpha = \mathrm{softmax}(\mathbf{a})` is learned.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width for each of the :math:`2 K + 1` matrices.
        out_channels (int): Width of the output.
        num_layers (int): Number of hops :math:`K`.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout before the last layer. (default: :obj:`0.0`)
        normalize (bool, optional): Whether both matrices are normalised symmetrically, as in the
            paper. (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`, edge weights
          :math:`(E)` *(optional)*
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
        normalize: bool = True,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        self.normalize = normalize
        num_matrices = 2 * num_layers + 1
        self.lins = ModuleList(Linear(in_channels, hidden_channels) for _ in range(num_matrices))
        self.attention = Parameter(torch.empty(num_matrices))
        self.head = GraphHead(num_matrices * hidden_channels, out_channels, readout, num_layers=1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.lins)
        torch.nn.init.ones_(self.attention)
        self.head.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; edge attributes are not used."""
        features = [x]
        for matrix in self._matrices(edge_index, edge_weight, x.size(0), x.dtype):
            hop = x
            for _ in range(self.num_layers):
                hop = propagate(matrix, hop)
                features.append(hop)
        share = self.attention.softmax(dim=0)
        # (2 K + 1) times [N, C] -> [N, F]
        parts = [
            share[place] * F.normalize(lin(feature), dim=-1)
            for place, (lin, feature) in enumerate(zip(self.lins, features, strict=True))
        ]
        h = F.relu(torch.cat(parts, dim=-1))
        h = F.dropout(h, self.dropout, self.training)
        out: Tensor = self.head(h, batch, batch_size)
        return out

    def _matrices(
        self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
    ) -> tuple[Adjacency, Adjacency]:
        """Without and with self-loops."""
        plain = weigh_without_loops(edge_index, edge_weight, dtype)
        if self.normalize:
            return (
                gcn_adjacency(edge_index, plain, num_nodes, dtype, loop_weight=None),
                gcn_adjacency(edge_index, edge_weight, num_nodes, dtype),
            )
        nodes = torch.arange(num_nodes, device=edge_index.device)
        with_loops = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
        weight = torch.cat([plain, plain.new_ones(num_nodes)])
        return (
            sum_adjacency(edge_index, plain, num_nodes, dtype),
            sum_adjacency(with_loops, weight, num_nodes, dtype),
        )
