"""From node states to the output of a node task or a graph task, and its pooling."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module

from torch_grama.nn.arguments import Activation, choose, resolve_activation
from torch_grama.nn.readout import POOLINGS, ReadoutMLP, pool_graphs, pooled_channels

READOUTS = {"node": "one output per node", "graph": "one output per graph"}


class GraphHead(Module):
    r"""A readout MLP over the nodes, or over the pooled nodes of each graph.

    .. math::
        \mathbf{y}_i = \mathrm{MLP}(\mathbf{x}_i) \qquad \text{or} \qquad
        \mathbf{y}_b = \mathrm{MLP} \big( \mathrm{pool}_{i \in b} \, \mathbf{x}_i \big),

    the same readout as that of :class:`~torch_grama.nn.GRAMA`, so that a comparison is one of what
    comes before it.

    Args:
        channels (int): Width of the node states.
        out_channels (int): Width of the output.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        num_layers (int, optional): Number of linear layers. (default: :obj:`2`)
        act (str or callable, optional): Activation between them. (default: :obj:`"relu"`)
        dropout (float, optional): Dropout after each activation. (default: :obj:`0.0`)
        pooling (str, optional): What a graph readout takes of the nodes; see
            :func:`~torch_grama.nn.readout.pool_graphs`. (default: :obj:`"mean"`)

    Shapes:
        - **input:** node states :math:`(N, F)`, batch vector :math:`(N)` *(optional)*
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        readout: str = "node",
        num_layers: int = 2,
        act: str | Activation | None = "relu",
        dropout: float = 0.0,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        choose("readout", readout, READOUTS)
        self.channels = channels
        self.out_channels = out_channels
        self.readout = readout
        self.pooling = pooling
        width = pooled_channels(channels, pooling) if readout == "graph" else channels
        self.mlp = ReadoutMLP(width, out_channels, num_layers, resolve_activation(act), dropout)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.mlp.reset_parameters()

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        r"""Returns one row per node or graph."""
        if self.readout == "graph":
            # [N, F] -> [B, F], or [B, 3 F]
            x = pool_graphs(x, batch, batch_size, self.pooling)
        out: Tensor = self.mlp(x)
        return out

    def set_pooling(self, pooling: str) -> None:
        r"""Chooses what a graph readout takes of the nodes; where the width changes, the MLP begins
        anew.
        """
        width = pooled_channels(self.channels, pooling)
        if width != pooled_channels(self.channels, self.pooling):
            old = self.mlp
            self.mlp = ReadoutMLP(
                width,
                self.out_channels,
                len(old.layers),
                old.act,
                old.dropout.p,
            )
        self.pooling = pooling

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mlp}, readout={self.readout!r})"


class NodeOutput(Module):
    r"""The states as they are, or pooled over the nodes of each graph.

    Models that propagate class scores have no layer after the propagation; a graph's score is then
    the mean score of its nodes.
    """

    def __init__(self, readout: str) -> None:
        super().__init__()
        choose("readout", readout, READOUTS)
        self.readout = readout
        self.pooling = "mean"

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        if self.readout == "node":
            return x
        return pool_graphs(x, batch, batch_size, self.pooling)

    def set_pooling(self, pooling: str) -> None:
        r"""Chooses what a graph readout takes of the nodes."""
        if pooled_channels(1, pooling) != 1:
            raise ValueError(
                f"Expected 'pooling' to be 'mean', 'sum' or 'max', since the outputs of the nodes "
                f"are pooled as they are (got {pooling!r})"
            )
        self.pooling = pooling

    def __repr__(self) -> str:
        return f"{type(self).__name__}(readout={self.readout!r})"


def choose_pooling(model: Module, pooling: str) -> None:
    r"""Sets the pooling of a model that has just been built for graph tasks.

    Every model here reads out through :class:`GraphHead` or :class:`NodeOutput`, so that none has
    to take the option itself.

    Example:
        >>> from torch_grama.baselines import GCN
        >>> model = GCN(5, 8, 3, 2, readout="graph")
        >>> choose_pooling(model, "sum-max-mean")
        >>> model.head
        GraphHead(ReadoutMLP(24, 3), readout='graph')
    """
    heads = [head for head in model.modules() if isinstance(head, GraphHead | NodeOutput)]
    if not heads:
        raise ValueError(
            f"Expected a model with a readout of graphs to choose 'pooling' for (got "
            f"{type(model).__name__}); leave it out"
        )
    for head in heads:
        if head.readout != "graph" and pooling in POOLINGS and pooling != "mean":
            raise ValueError(
                f"Expected 'pooling' only with readout='graph' (got pooling={pooling!r}, "
                f"readout={head.readout!r})"
            )
        head.set_pooling(pooling)
