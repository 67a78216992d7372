"""Edge attributes for convolutions that read none."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter


class EdgeAddition(Module):
    r"""Adds the edge states of a node to what a convolution gives it:

    .. math::
        \mathbf{x}'_i = \mathrm{Conv}(\mathbf{X})_i + \sum_{j \to i} \mathbf{e}_{ij},

    or their mean.

    Args:
        conv (Module): The convolution.
        reduce (str): ``"sum"`` or ``"mean"``.

    Shapes:
        - **input:** node states :math:`(N, F_{in})`, edges :math:`(2, E)`, edge states
          :math:`(E, F)`
        - **output:** node states :math:`(N, F)`
    """

    def __init__(self, conv: Module, reduce: str) -> None:
        super().__init__()
        self.conv = conv
        self.reduce = reduce

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.conv)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, **keywords: Tensor | None
    ) -> Tensor:
        r"""Returns new node states."""
        edges = scatter(edge_attr, edge_index[1], dim_size=x.size(0), reduce=self.reduce)
        out: Tensor = self.conv(x, edge_index, **keywords)
        return out + edges


def add_edge_states(conv: Module, reduce: str, edge_dim: int | None) -> Module:
    r"""Wraps a convolution if there are edge attributes, and returns it as it is if not."""
    return conv if edge_dim is None else EdgeAddition(conv, reduce)
