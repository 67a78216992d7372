"""The readout of models whose node states are the output already."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module

from torch_grama.baselines.graph_head import READOUTS
from torch_grama.nn.arguments import choose
from torch_grama.nn.readout import pool_graphs, pooled_channels


class NodeOutput(Module):
    r"""The states as they are, or pooled over the nodes of each graph.

    Models that propagate class scores have no layer after the propagation; a graph's score is then
    the mean score of its nodes.

    Args:
        readout (str): ``"node"`` or ``"graph"``.

    Shapes:
        - **input:** node outputs :math:`(N, C_{out})`, batch vector :math:`(N)` *(optional)*
        - **output:** :math:`(N, C_{out})` for nodes, :math:`(B, C_{out})` for graphs
    """

    def __init__(self, readout: str) -> None:
        super().__init__()
        choose("readout", readout, READOUTS)
        self.readout = readout
        self.pooling = "mean"

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        r"""Returns one row a node or a graph."""
        if self.readout == "node":
            return x
        return pool_graphs(x, batch, batch_size, self.pooling)

    def set_pooling(self, pooling: str) -> None:
        r"""Chooses what a graph readout takes of the nodes.

        Args:
            pooling (str): ``"mean"``, ``"sum"`` or ``"max"``.

        Raises:
            ValueError: If there is no such pooling, or it would change the width.
        """
        if pooled_channels(1, pooling) != 1:
            raise ValueError(
                f"Expected 'pooling' to be 'mean', 'sum' or 'max', since the outputs of the nodes "
                f"are pooled as they are (got {pooling!r})"
            )
        self.pooling = pooling

    def __repr__(self) -> str:
        return f"{type(self).__name__}(readout={self.readout!r})"
