"""MixHop: several powers of the adjacency matrix in every layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, ModuleList
from torch_geometric.nn import MixHopConv

from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.sized_module import SizedModule


class MixHop(SizedModule):
    r"""The model of `"MixHop: Higher-Order Graph Convolutional Architectures via Sparsified
    Neighborhood Mixing" <https://arxiv.org/abs/1905.00067>`_, by PyG's
    :class:`~torch_geometric.nn.MixHopConv`.

    .. math::
        \mathbf{H}^{(l+1)} = \sigma \Big( \mathrm{BN} \Big( \big\Vert_{p \in P} \,
        \hat{\mathbf{A}}^p \mathbf{H}^{(l)} \mathbf{W}_p^{(l)} + \mathbf{b}^{(l)} \Big) \Big),

    where :math:`\hat{\mathbf{A}}` has self-loops and is normalised symmetrically. The output is a
    linear layer of the last state.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width for each power; the states have :math:`|P|` times that.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after each layer. (default: :obj:`0.0`)
        powers (sequence of int, optional): The powers :math:`P`. (default: :obj:`(0, 1, 2)`)
        batch_norm (bool, optional): Whether to normalise before the activation.
            (default: :obj:`True`)
        head_layers (int, optional): Number of linear layers at the end. (default: :obj:`1`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`, edge weights
          :math:`(E)` *(optional)*
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        powers: Sequence[int] = (0, 1, 2),
        batch_norm: bool = True,
        head_layers: int = 1,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        self.powers = sorted(set(powers))
        if not self.powers or self.powers[0] < 0:
            raise ValueError(
                f"Expected 'powers' to name at least one power, none negative (got {list(powers)})"
            )
        width = len(self.powers) * hidden_channels
        self.convs = ModuleList(
            MixHopConv(width if layer else in_channels, hidden_channels, self.powers)  # type: ignore[abstract]
            for layer in range(num_layers)
        )
        self.norms = ModuleList(
            BatchNorm1d(width) if batch_norm else Identity() for _ in range(num_layers)
        )
        self.head = GraphHead(width, out_channels, readout, head_layers, dropout=dropout)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; edge attributes are not used."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            # [N, F] -> [N, |P| F']
            x = F.relu(norm(conv(x, edge_index, edge_weight)))
            x = F.dropout(x, self.dropout, self.training)
        out: Tensor = self.head(x, batch, batch_size)
        return out
