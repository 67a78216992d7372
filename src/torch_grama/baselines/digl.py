"""DIGL: message passing on a diffused graph."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear, ModuleList
from torch_geometric.nn import GCNConv

from torch_grama.baselines.graph_diffusion import GraphDiffusion
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_memo import GraphMemo
from torch_grama.baselines.sized_module import SizedModule


class DIGL(SizedModule):
    r"""The method of `"Diffusion Improves Graph Learning" <https://arxiv.org/abs/1911.05485>`_ with
    graph convolutions, by PyG's :class:`~torch_geometric.nn.GCNConv`.

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \mathbf{W}_0 + \mathbf{b}_0, \qquad
        \mathbf{H}^{(l+1)} = \mathbf{H}^{(l)} + \sigma \big( \mathrm{BN} ( \tilde{\mathbf{S}}
        \mathbf{H}^{(l)} \mathbf{W}^{(l)} + \mathbf{b}^{(l)} ) \big),

    where :math:`\tilde{\mathbf{S}}` is the sparsified diffusion matrix of
    :class:`~torch_grama.baselines.graph_diffusion.GraphDiffusion`. It is computed for each graph by
    itself, also inside a batch, and remembered: a graph is diffused once.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the hidden states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after each layer. (default: :obj:`0.0`)
        diffusion (GraphDiffusion or str, optional): The transform, or the word for one with default
            settings: ``"ppr"`` or ``"heat"``. (default: :obj:`"ppr"`)
        residual (bool, optional): Whether a layer adds its input. (default: :obj:`True`)
        batch_norm (bool, optional): Whether to normalise before the activation.
            (default: :obj:`True`)
        cached (bool, optional): Whether diffused graphs are remembered. (default: :obj:`True`)

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
        diffusion: GraphDiffusion | str = "ppr",
        residual: bool = True,
        batch_norm: bool = True,
        cached: bool = True,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        transform = (
            diffusion if isinstance(diffusion, GraphDiffusion) else GraphDiffusion(diffusion)
        )
        self.memo = GraphMemo(transform) if cached else GraphMemo(transform, max_pairs=0)
        self.residual = residual
        self.lin = Linear(in_channels, hidden_channels)
        self.convs = ModuleList(
            GCNConv(hidden_channels, hidden_channels, normalize=False)  # type: ignore[abstract]
            for _ in range(num_layers)
        )
        self.norms = ModuleList(
            BatchNorm1d(hidden_channels) if batch_norm else Identity() for _ in range(num_layers)
        )
        self.head = GraphHead(hidden_channels, out_channels, readout, dropout=dropout)

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
        edge_index, weight = self.memo.find(edge_index, edge_weight, x.size(0), batch, batch_size)
        weight = weight.to(x.dtype)
        # [N, C] -> [N, F]
        h = self.lin(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            update = F.relu(norm(conv(h, edge_index, weight)))
            update = F.dropout(update, self.dropout, self.training)
            h = h + update if self.residual else update
        out: Tensor = self.head(h, batch, batch_size)
        return out
