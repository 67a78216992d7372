"""The readout of models whose node states are the output already."""

from __future__ import annotations

from torch import Tensor

from torch_grama.nn.graph_mean import graph_mean


def read_node_output(
    x: Tensor, readout: str, batch: Tensor | None = None, batch_size: int | None = None
) -> Tensor:
    r"""Returns the states as they are, or their mean over the nodes of each graph.

    Models that propagate class scores have no layer after the propagation; a graph's score is then
    the mean score of its nodes.

    Args:
        x (Tensor): Node outputs :math:`(N, C_{out})`.
        readout (str): ``"node"`` or ``"graph"``.
        batch (Tensor, optional): The graph of each node. (default: :obj:`None`)
        batch_size (int, optional): Number of graphs. (default: :obj:`None`)

    Returns:
        Tensor: :math:`(N, C_{out})` for nodes, :math:`(B, C_{out})` for graphs.
    """
    if readout == "node":
        return x
    return graph_mean(x.unsqueeze(0), batch, batch_size).squeeze(1)
