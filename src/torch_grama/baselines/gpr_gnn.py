"""GPR-GNN: learned weights for the powers of the adjacency matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.models import MLP

from torch_grama.baselines.fixed_product import propagate
from torch_grama.baselines.node_output import NodeOutput
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.arguments import choose
from torch_grama.nn.linear_backbone import gcn_adjacency

STARTS = {"ppr": "personalised PageRank", "random": "uniform, of absolute sum one"}


class GPRGNN(SizedModule):
    r"""The model of `"Adaptive Universal Generalized PageRank Graph Neural Network"
    <https://arxiv.org/abs/2006.07988>`_.

    .. math::
        \mathbf{Y} = \sum_{k=0}^{K} \gamma_k \hat{\mathbf{A}}^k \, \mathrm{MLP}(\mathbf{X}),
        \qquad \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2},

    where the MLP has two layers and the :math:`\gamma_k` are learned, from
    :math:`\gamma_k = \alpha (1 - \alpha)^k` and :math:`\gamma_K = (1 - \alpha)^K`.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the hidden layer.
        out_channels (int): Width of the output.
        num_layers (int): The highest power :math:`K`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
            (default: :obj:`"node"`)
        dropout (float, optional): Dropout of the features and of the hidden layer.
            (default: :obj:`0.0`)
        propagation_dropout (float, optional): Dropout before the propagation.
            (default: :obj:`0.0`)
        alpha (float, optional): The :math:`\alpha` of the start. (default: :obj:`0.1`)
        start (str, optional): ``"ppr"`` or ``"random"``. (default: :obj:`"ppr"`)

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
        propagation_dropout: float = 0.0,
        alpha: float = 0.1,
        start: str = "ppr",
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        self.head = NodeOutput(readout)
        choose("start", start, STARTS)
        if not 0 <= alpha <= 1:
            raise ValueError(f"Expected 'alpha' to be between 0 and 1 (got {alpha})")
        self.propagation_dropout = propagation_dropout
        self.alpha = alpha
        self.start = start
        self.mlp = MLP([in_channels, hidden_channels, out_channels], dropout=dropout, norm=None)
        self.gamma = Parameter(torch.empty(num_layers + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()
        with torch.no_grad():
            if self.start == "random":
                self.gamma.uniform_(-1, 1)
                self.gamma.div_(self.gamma.abs().sum())
            else:
                power = torch.arange(self.num_layers + 1, dtype=torch.float64)
                gamma = (1 - self.alpha) ** power
                gamma[:-1] *= self.alpha
                self.gamma.copy_(gamma)

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
        adjacency = gcn_adjacency(edge_index, edge_weight, x.size(0), x.dtype)
        # [N, C_in] -> [N, C_out]
        h = self.mlp(F.dropout(x, self.dropout, self.training))
        h = F.dropout(h, self.propagation_dropout, self.training)
        out = self.gamma[0] * h
        for power in range(1, self.num_layers + 1):
            h = propagate(adjacency, h)
            out = out + self.gamma[power] * h
        result: Tensor = self.head(out, batch, batch_size)
        return result
