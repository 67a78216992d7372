"""MLP: linear layers on the nodes, blind to the graph."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn.models import MLP as PyGMLP

from torch_grama.baselines.node_output import NodeOutput
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.arguments import check_positive


class MLP(SizedModule):
    r"""A multi-layer perceptron on each node, by PyG's :class:`~torch_geometric.nn.MLP`.

    .. math::
        \mathbf{y}_i = \mathbf{W}_L \, \sigma( \cdots \sigma(\mathbf{W}_1 \mathbf{x}_i +
        \mathbf{b}_1) \cdots ) + \mathbf{b}_L,

    where :math:`\sigma` is ReLU with dropout. One layer (MLP-1) is a linear classifier.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the hidden states.
        out_channels (int): Width of the output.
        num_layers (int): Number of linear layers :math:`L`.
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
            (default: :obj:`"node"`)
        dropout (float, optional): Dropout probability. (default: :obj:`0.0`)
        depth (int, optional): Takes the place of :obj:`num_layers`, for words that stand for a
            fixed depth. (default: :obj:`None`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)` *(not used)*
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
        widths = [in_channels] + [hidden_channels] * (depth - 1) + [out_channels]
        self.mlp = PyGMLP(widths, dropout=dropout, norm=None)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; only the node features are used."""
        result: Tensor = self.head(self.mlp(x), batch, batch_size)
        return result
