"""SGC: a linear model of smoothed features."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SGConv

from torch_grama.baselines.node_output import NodeOutput
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.arguments import check_positive


class SGC(SizedModule):
    r"""The model of `"Simplifying Graph Convolutional Networks"
    <https://arxiv.org/abs/1902.07153>`_, by PyG's :class:`~torch_geometric.nn.SGConv`.

    .. math::
        \mathbf{Y} = \hat{\mathbf{A}}^K \mathbf{X} \mathbf{W} + \mathbf{b}, \qquad
        \hat{\mathbf{A}} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2}.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Not used: the model has no hidden layer.
        out_channels (int): Width of the output.
        num_layers (int): The power :math:`K`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
            (default: :obj:`"node"`)
        dropout (float, optional): Dropout of the features. (default: :obj:`0.0`)
        depth (int, optional): Takes the place of :obj:`num_layers`, for words that stand for a
            fixed power. (default: :obj:`None`)

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
        depth: int | None = None,
    ) -> None:
        check_positive(depth=depth)
        depth = num_layers if depth is None else depth
        super().__init__(in_channels, hidden_channels, out_channels, depth, readout, dropout)
        self.head = NodeOutput(readout)
        self.conv = SGConv(in_channels, out_channels, K=depth)  # type: ignore[abstract]

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
        x = F.dropout(x, self.dropout, self.training)
        result: Tensor = self.head(self.conv(x, edge_index, edge_weight), batch, batch_size)
        return result
