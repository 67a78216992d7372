"""DRew: neighbours of growing distance, layer by layer, and delayed messages from them."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, ModuleList

from torch_grama.baselines.drew_layers import DRewGatedGCNLayer, DRewGCNLayer, DRewGINLayer
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.ring_matrices import RingMatrices
from torch_grama.baselines.sized_module import SizedModule
from torch_grama.nn.arguments import check_positive


class DRew(SizedModule):
    r"""The scheme of `"DRew: Dynamically Rewired Message Passing with Delay"
    <https://arxiv.org/abs/2305.08018>`_, to be used through its three forms :class:`DRewGCN`,
    :class:`DRewGIN` and :class:`DRewGatedGCN`.

    Layer :math:`l = 0, 1, \ldots` hears the nodes at every distance :math:`k = 1, \ldots, l + 1`,
    those at distance :math:`k` as they were :math:`\tau_\nu(k) = \max(0, k - \nu)` layers ago.

    The pairs of nodes by distance are found once for each graph and remembered (see
    :obj:`cached`).

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the hidden states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers :math:`L`.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout after each layer. (default: :obj:`0.0`)
        nu (int, optional): The distance :math:`\nu` up to which there is no delay; :obj:`None` for
            no delay at all. (default: :obj:`1`, the strongest)
        max_hops (int, optional): The largest distance; :obj:`None` for :math:`L`.
            (default: :obj:`None`)
        batch_norm (bool, optional): Whether the layers normalise. (default: :obj:`True`)
        head_layers (int, optional): Number of linear layers at the end. (default: :obj:`2`)
        cached (bool, optional): Whether to remember the pairs of each graph.
            (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`
        - **output:** :math:`(N, C_{out})` or :math:`(B, C_{out})`
    """

    layer_class: ClassVar[type[DRewGCNLayer | DRewGINLayer | DRewGatedGCNLayer]]

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
        nu: int | None = 1,
        max_hops: int | None = None,
        batch_norm: bool = True,
        head_layers: int = 2,
        cached: bool = True,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        check_positive(nu=nu, max_hops=max_hops)
        self.nu = nu
        self.max_hops = num_layers if max_hops is None else min(max_hops, num_layers)
        self.rings = RingMatrices(self.max_hops, cached, self.layer_class.normalizes_rings)
        self.lin = Linear(in_channels, hidden_channels)
        self.layers = ModuleList(
            self.layer_class(hidden_channels, min(layer + 1, self.max_hops), batch_norm)
            for layer in range(num_layers)
        )
        self.head = GraphHead(hidden_channels, out_channels, readout, head_layers, dropout=dropout)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row a node or a graph; edge weights and attributes are not used."""
        rings = self.rings.find(edge_index, x.size(0), x.dtype, batch, batch_size)
        # [N, C] -> [N, F]; all states are kept for the delay
        states = [self.lin(x)]
        for place, layer in enumerate(self.layers):
            hops = range(1, min(place + 1, self.max_hops) + 1)
            delayed = [states[place - self._delay(hop)] for hop in hops]
            update = F.dropout(layer(states[place], delayed, rings), self.dropout, self.training)
            states.append(states[place] + update if layer.adds_to_input else update)
        out: Tensor = self.head(states[-1], batch, batch_size)
        return out

    def _delay(self, hop: int) -> int:
        return 0 if self.nu is None else max(0, hop - self.nu)


class DRewGCN(DRew):
    r"""DRew with graph convolutions.

    .. math::
        \mathbf{h}_i^{(l+1)} = \mathbf{h}_i^{(l)} + \sigma \Big( \mathrm{BN} \Big(
        \sum_{k=1}^{l+1} \sum_{j : d(j, i) = k} \frac{1}{\sqrt{d_i^k d_j^k}} \mathbf{W}_k^{(l)}
        \mathbf{h}_j^{(l - \tau_\nu(k))} \Big) \Big),

    where :math:`d_i^k` counts the nodes at distance :math:`k`. For the arguments see
    :class:`DRew`.
    """

    layer_class = DRewGCNLayer


class DRewGIN(DRew):
    r"""DRew with the isomorphism operator.

    .. math::
        \mathbf{h}_i^{(l+1)} = (1 + \epsilon) \, \mathrm{MLP}_s^{(l)} (\mathbf{h}_i^{(l)}) +
        \sum_{k=1}^{l+1} \mathrm{MLP}_k^{(l)} \Big( \sum_{j : d(j, i) = k}
        \mathbf{h}_j^{(l - \tau_\nu(k))} \Big),

    where each MLP is a linear layer, batch normalisation and ReLU, and :math:`\epsilon` is learned.
    For the arguments see :class:`DRew`.
    """

    layer_class = DRewGINLayer


class DRewGatedGCN(DRew):
    r"""DRew with gated convolutions, without edge states.

    .. math::
        \mathbf{h}_i^{(l+1)} &= \mathbf{h}_i^{(l)} + \sigma \Big( \mathrm{BN} \Big( \mathbf{A}
        \mathbf{h}_i^{(l)} + \sum_{k=1}^{l+1} \frac{\sum_{j : d(j, i) = k} \eta_{ij} \odot
        \mathbf{B}_k \mathbf{h}_j^{(l - \tau_\nu(k))}}{\sum_{j : d(j, i) = k} \eta_{ij} + 10^{-6}}
        \Big) \Big), \\
        \eta_{ij} &= \mathrm{sigmoid} \big( \mathbf{D} \mathbf{h}_i^{(l)} + \mathbf{E}_k
        \mathbf{h}_j^{(l - \tau_\nu(k))} \big).

    For the arguments see :class:`DRew`.
    """

    layer_class = DRewGatedGCNLayer
