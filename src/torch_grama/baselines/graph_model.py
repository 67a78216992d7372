"""What all baselines of this folder do before and after their own update."""

from __future__ import annotations

import dataclasses

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.inits import reset

from torch_grama.baselines.feature_encoder import FeatureEncoder
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.nn.graph_input import GraphInput, read_graph_input


class GraphModel(Module):
    r"""Encoder, update and readout; a model says only what its update is.

    .. math::
        \mathbf{Y} = \mathrm{Readout}(\mathrm{Update}(\mathrm{Encoder}(\mathbf{X})))

    Edge attributes are given to models that were built with ``edge_dim``; the others have no place
    for them and leave them aside. Edge weights given to a model that has no place for them are an
    error.

    Args:
        encoder (FeatureEncoder): Brings the features to the width of the model.
        head (GraphHead): Makes the output of node states.

    Shapes:
        - **input:** node features :math:`(N, C)`, edges :math:`(2, E)`, edge weights :math:`(E)`
          *(optional)*, edge attributes :math:`(E, D)` *(optional)*, batch vector :math:`(N)`
          *(optional)*
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks
    """

    takes_edge_weight: bool = True

    def __init__(self, encoder: FeatureEncoder, head: GraphHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph.

        Args:
            x (Tensor): Node features.
            edge_index (Tensor): Edges, from source to target.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node, sorted. (default: :obj:`None`)
            batch_size (int, optional): The number of graphs. (default: :obj:`None`)
        """
        # N nodes, E edges, B graphs, F channels
        graph = read_graph_input(x.size(0), edge_index, edge_weight, edge_attr, batch, batch_size)
        if graph.edge_weight is not None and not self.takes_edge_weight:
            raise ValueError(
                f"Expected no 'edge_weight' (got one, but {type(self).__name__} has no place for "
                f"edge weights); leave them out"
            )
        # [N, C] -> [N, F], [E, D] -> [E, F]
        x, edge_state = self.encoder(x, graph.edge_attr, graph.edge_index.size(1))
        x = self.update(x, dataclasses.replace(graph, edge_attr=edge_state))
        out: Tensor = self.head(x, graph.batch, graph.batch_size)
        return out

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Returns new node states; every model defines its own."""
        raise NotImplementedError

    def __repr__(self) -> str:
        last = self.head.mlp.layers[-1]
        return (
            f"{type(self).__name__}({self.encoder.in_channels}, {self.encoder.channels}, "
            f"{last.out_features}{self._describe()})"
        )

    def _describe(self) -> str:
        return ""
