"""A convolution with a feed-forward part, as a backbone."""

from __future__ import annotations

from torch import Tensor
from torch.nn import GELU, Dropout, Linear, Module, Sequential
from torch_geometric.nn.inits import reset

from torch_grama.nn.backbone import ask, forward_parameters
from torch_grama.nn.neighbor_convs import convolve
from torch_grama.nn.norms import StepwiseBatchNorm


class FeedForwardConv(Module):
    r"""A convolution with an activation and a feed-forward part, as the layers of tuned models have
    them:

    .. math::
        \mathbf{u} = \mathrm{GELU}(\mathrm{Conv}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathbf{u} + \mathbf{W}_2 \, \mathrm{GELU}(\mathbf{W}_1 \,
        \mathrm{BN}(\mathbf{x} + \mathbf{u})).

    It returns the update alone: inside GRAMA the recurrence adds the states. Each recurrence keeps
    running statistics of its own.

    Args:
        conv (Module): The convolution, called with node states, edges and what it declares.
        channels (int): Width of the states; between the two maps it is twice that.
        num_recurrences (int, optional): How many recurrences share it. (default: :obj:`1`)
        dropout (float, optional): Dropout after each activation and at the end.
            (default: :obj:`0.0`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`
        - **output:** node states :math:`(N, F)`, and the edge state if the convolution has one
    """

    def __init__(
        self, conv: Module, channels: int, num_recurrences: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.conv = conv
        self.activate = Sequential(GELU(), Dropout(dropout))
        self.norm = StepwiseBatchNorm(channels, num_recurrences)
        self.feed_forward = Sequential(
            Linear(channels, 2 * channels),
            GELU(),
            Dropout(dropout),
            Linear(2 * channels, channels),
            Dropout(dropout),
        )
        self._conv_takes_step = "step" in forward_parameters(conv)

    @property
    def edge_state(self) -> str | None:
        r"""Where the convolution passes its edge state on, as in :class:`GatedGCNConv`."""
        return getattr(self.conv, "edge_state", None)

    def drop_edge_update(self) -> None:
        r"""As in :class:`GatedGCNConv`."""
        ask(self.conv, "drop_edge_update")

    def drop_initial_edge(self) -> None:
        r"""As in :class:`GatedGCNConv`."""
        ask(self.conv, "drop_initial_edge")

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        step: int = 0,
        **kwargs: Tensor,
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Returns the update; further keywords go to the convolution."""
        steps = {"step": step} if self._conv_takes_step else {}
        result = convolve(self.conv, x, edge_index=edge_index, **steps, **kwargs)
        out, *edges = result if isinstance(result, tuple) else (result,)
        update: Tensor = self.activate(out)
        own = x[1] if isinstance(x, tuple) else x
        update = update + self.feed_forward(self.norm(own + update, step))
        return (update, edges[0]) if edges else update

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.conv).__name__})"
