"""The readout MLP."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList
from torch_geometric.nn.inits import reset

from torch_grama.nn.activation import Activation
from torch_grama.nn.grama_arguments import check_positive


class Readout(Module):
    r"""Linear layers with activation and dropout between them.

    Args:
        channels (int): Width of the input and of the hidden layers.
        out_channels (int): Width of the output.
        num_layers (int): Number of linear layers.
        act (callable): The activation.
        dropout (float): Dropout after each activation.
    """

    def __init__(
        self, channels: int, out_channels: int, num_layers: int, act: Activation, dropout: float
    ) -> None:
        super().__init__()
        check_positive(readout_layers=num_layers)
        widths = [channels] * num_layers + [out_channels]
        self.layers = ModuleList([Linear(*pair) for pair in pairwise(widths)])
        self.act = act
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        r"""Returns the output of the last layer."""
        for layer in self.layers[:-1]:
            x = self.dropout(self.act(layer(x)))
        out: Tensor = self.layers[-1](x)
        return out

    def __repr__(self) -> str:
        first, last = self.layers[0], self.layers[-1]
        return f"{type(self).__name__}({first.in_features}, {last.out_features})"
