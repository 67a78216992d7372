"""What all stacked models share: the way in and the way out."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Linear

from torch_grama.baselines.batch_view import BatchView, read_batch
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.graph_input import check_edge_attr, count_nodes


class StackModel(SizedModule):
    r"""A linear map of the node features, layers that a subclass gives, and a head:

    .. math::
        \mathbf{Y} = \mathrm{Head}(\mathrm{Layers}(\mathbf{X} \mathbf{W} + \mathbf{b})).

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        edge_dim (int, optional): Width of the edge attributes; :obj:`None` leaves them unread.
            (default: :obj:`None`)
        readout_layers (int, optional): Linear layers of the head. (default: :obj:`2`)
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
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        check_positive(edge_dim=edge_dim)
        self.edge_dim = edge_dim
        self.node_lin = Linear(in_channels, hidden_channels)
        self.edge_lin = None if edge_dim is None else Linear(edge_dim, hidden_channels)
        self.head = GraphHead(hidden_channels, out_channels, readout, readout_layers)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph.

        Args:
            x (Tensor): Node features :math:`(N, C_{in})`.
            edge_index (Tensor): Edges :math:`(2, E)`, from source to target.
            edge_weight (Tensor, optional): Edge weights :math:`(E)`, read by the layers that know
                what to do with them. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes :math:`(E, C_{edge})`, read where the
                model was built with :obj:`edge_dim`. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node :math:`(N)`, sorted.
                (default: :obj:`None`, one graph)
            batch_size (int, optional): The number of graphs. (default: :obj:`None`)
        """
        if x.dim() != 2:
            raise ValueError(
                f"Expected 'x' of shape [num_nodes, channels] (got {list(x.size())}); lay the "
                f"elements of a sequence side by side"
            )
        count_nodes(x, self.in_channels, seq_len=1)
        view = read_batch(x, edge_index, edge_weight, edge_attr, batch, batch_size)
        edge_state = None
        if self.edge_lin is not None:
            check_edge_attr(edge_attr, self.edge_dim, True)
            edge_state = self.edge_lin(edge_attr)
        states = self.propagate(self.embed(x, view), edge_state, view)
        out: Tensor = self.head(states, batch, batch_size)
        return out

    def embed(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Brings the node features to the width of the states."""
        del view
        out: Tensor = self.node_lin(x)
        return out

    def propagate(self, x: Tensor, edge_state: Tensor | None, view: BatchView) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        raise NotImplementedError
