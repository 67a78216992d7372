"""The feed-forward part that follows a convolution or an attention."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Dropout, Linear, Module
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import Activation, resolve_activation
from torch_grama.nn.norms import NormLike, build_norm, normalize


class FeedForward(Module):
    r"""Two linear layers around a residual, normalised before and after:

    .. math::
        \mathbf{h} = \mathrm{Norm}(\mathbf{x}), \qquad
        \mathbf{x}' = \mathrm{Norm}\left( \mathbf{h} + \mathbf{W}_2 \, \sigma(\mathbf{W}_1
        \mathbf{h}) \right),

    with a hidden layer of twice the width, and dropout after each linear layer.

    Args:
        channels (int): Width of the states.
        act (str or callable, optional): The activation. (default: :obj:`"relu"`)
        norm (str or callable, optional): The norm, or :obj:`None`. (default: :obj:`None`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)

    Shapes:
        - **input:** :math:`(N, F)`
        - **output:** :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.lin1 = Linear(channels, 2 * channels)
        self.lin2 = Linear(2 * channels, channels)
        self.norm1 = build_norm(norm, channels)
        self.norm2 = build_norm(norm, channels)
        self.act = resolve_activation(act)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    def forward(self, x: Tensor) -> Tensor:
        r"""Returns states of the same size."""
        if self.norm1 is not None:
            x = normalize(self.norm1, x)
        hidden = self.dropout(self.act(self.lin1(x)))
        x = x + self.dropout(self.lin2(hidden))
        return x if self.norm2 is None else normalize(self.norm2, x)
