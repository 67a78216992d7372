"""Positional and structural encodings before they join the node features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Linear, Module, ReLU
from torch_geometric.nn.inits import reset

from torch_grama.nn.stepwise_batch_norm import StepwiseBatchNorm


class PositionEncoder(Module):
    r"""Encodes positional and structural encodings: batch norm, then an MLP of two layers.

    Args:
        in_channels (int): Number of columns of the encodings.
        channels (int): Width of the result.

    Shapes:
        - **input:** encodings :math:`(N, K)`
        - **output:** :math:`(N, F)`
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        if in_channels < 1 or channels < 1:
            raise ValueError(
                f"Expected 'in_channels' and 'channels' to be at least 1 (got {in_channels} and "
                f"{channels})"
            )
        self.in_channels = in_channels
        self.channels = channels
        self.norm = StepwiseBatchNorm(in_channels)
        self.first = Linear(in_channels, 2 * channels)
        self.act = ReLU()
        self.second = Linear(2 * channels, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(self, pe: Tensor) -> Tensor:
        r"""Returns the encoded positions."""
        out: Tensor = self.second(self.act(self.first(self.norm(pe))))
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.channels})"


def append_positions(x: Tensor, encoded: Tensor, sequence_first: bool = False) -> Tensor:
    r"""Lays encoded positions beside node features, or beside each element of a sequence of them.

    Args:
        x (Tensor): Node features :math:`(N, C)` or a sequence :math:`(N, L, C)`.
        encoded (Tensor): Encoded positions :math:`(N, F)`.
        sequence_first (bool, optional): If :obj:`True`, a sequence is :math:`(L, N, C)`.
            (default: :obj:`False`)
    """
    if x.dim() == 3:
        encoded = encoded.unsqueeze(0 if sequence_first else 1).expand(*x.shape[:-1], -1)
    return torch.cat([x, encoded], dim=-1)
