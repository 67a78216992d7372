"""Graph convolution in which a node has a weight of its own."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Linear
from torch_geometric.nn import GCNConv


class RootedGCNConv(GCNConv):
    r"""Graph convolution plus a linear map of the node itself:

    .. math::
        \mathbf{X}' = \hat{\mathbf{A}} \mathbf{X} \mathbf{W} + \mathbf{X}
        \mathbf{W}_{\mathrm{root}} + \mathbf{b},

    where :math:`\hat{\mathbf{A}}` is the symmetrically normalised adjacency matrix with self-loops
    of PyG's :class:`~torch_geometric.nn.GCNConv`. In a dense graph its loop is a share of one over
    the degree, so that a node hardly sees itself; the second map gives it back. As a backbone it is
    linear and runs on the linear engine.

    Args:
        channels (int): Width of the states.
        bias (bool, optional): If :obj:`False`, there is no :math:`\mathbf{b}`.
            (default: :obj:`True`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`, edge weights :math:`(E)`
          *(optional)*
        - **output:** node states :math:`(N, F)`
    """

    def __init__(self, channels: int, bias: bool = True) -> None:
        super().__init__(channels, channels, bias=bias)
        self.root = Linear(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()  # type: ignore[no-untyped-call]
        # the constructor above calls this before there is a root
        if hasattr(self, "root"):
            self.root.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = super().forward(x, edge_index, edge_weight) + self.root(x)
        return out
