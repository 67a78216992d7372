"""What a graph readout takes of the nodes, for any model of this folder."""

from __future__ import annotations

from torch.nn import Module

from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.node_output import NodeOutput
from torch_grama.nn.readout import POOLINGS


def choose_pooling(model: Module, pooling: str) -> None:
    r"""Sets the pooling of a model that has just been built for graph tasks.

    Every model here reads out through :class:`GraphHead` or :class:`NodeOutput`, so that none has
    to take the option itself.

    Args:
        model (Module): The model.
        pooling (str): ``"mean"``, ``"sum"``, ``"max"`` or ``"sum-max-mean"``.

    Raises:
        ValueError: If there is no such pooling, the model cannot have it, or its readout is not
            one of graphs.

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
