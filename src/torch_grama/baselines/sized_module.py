"""What every model that is built from four sizes keeps, checks and prints."""

from __future__ import annotations

from torch.nn import Module
from torch_geometric.nn.inits import reset

from torch_grama.baselines.graph_head import READOUTS
from torch_grama.nn.arguments import check_input_sizes, check_positive, choose


class SizedModule(Module):
    r"""A module with the four sizes that all models of this package are built from.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the hidden states.
        out_channels (int): Width of the output.
        num_layers (int): Depth, in the sense of the model.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout probability. (default: :obj:`0.0`)

    Raises:
        ValueError: If a size is below 1, the dropout is not in :math:`[0, 1)`, or the readout is
            unknown.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        readout: str = "node",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(
            in_channels=in_channels,
            hidden_channels=hidden_channels,
            out_channels=out_channels,
            num_layers=num_layers,
        )
        choose("readout", readout, READOUTS)
        check_input_sizes(in_channels, dropout)
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.num_layers = num_layers
        self.readout = readout
        self.dropout = dropout

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, "
            f"{self.out_channels}, num_layers={self.num_layers}, readout={self.readout!r})"
        )
