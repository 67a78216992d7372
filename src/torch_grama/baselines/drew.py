"""DRew: neighbours of growing distance, layer by layer, and delayed messages from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, Linear, Module, ModuleList, Parameter, ReLU, Sequential
from torch_geometric.nn.inits import reset

from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions
from torch_grama.baselines.hop_pairs import RingMatrices
from torch_grama.baselines.products import propagate
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.engine.adjacency import Adjacency, gather
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.norms import normalize


# A layer is built of the width, the largest distance, and whether to normalise, and called as
# `layer(x, delayed, rings)`: the states now, the states that the nodes at distance 1, 2, ... are
# heard in, and the pairs at these distances.
class DRewGCNLayer(Module):
    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        # the norm has a bias of its own
        self.lins = ModuleList(
            Linear(channels, channels, bias=not batch_norm and hop == 0) for hop in range(num_hops)
        )
        self.norm = BatchNorm1d(channels) if batch_norm else Identity()

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        total = torch.zeros_like(x)
        for lin, state, ring in zip(self.lins, delayed, rings, strict=False):
            total = total + lin(propagate(ring, state))
        return F.relu(normalize(self.norm, total))


class DRewGINLayer(Module):
    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        self.own_mlp = _MLP(channels, batch_norm)
        self.mlps = ModuleList(_MLP(channels, batch_norm) for _ in range(num_hops))
        self.eps = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for child in self.children():
            reset(child)
        torch.nn.init.zeros_(self.eps)

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        total = (1 + self.eps) * self.own_mlp(x)
        for mlp, state, ring in zip(self.mlps, delayed, rings, strict=False):
            total = total + mlp(propagate(ring, state))
        return F.relu(total)


class DRewGatedGCNLayer(Module):
    def __init__(self, channels: int, num_hops: int, batch_norm: bool) -> None:
        super().__init__()
        # A and D; for each distance B and E
        self.own_lin = Linear(channels, 2 * channels)
        self.lins = ModuleList(Linear(channels, 2 * channels) for _ in range(num_hops))
        self.norm = BatchNorm1d(channels) if batch_norm else Identity()

    def forward(self, x: Tensor, delayed: Sequence[Tensor], rings: Sequence[Adjacency]) -> Tensor:
        total, receives = self.own_lin(x).chunk(2, dim=-1)
        for lin, state, ring in zip(self.lins, delayed, rings, strict=False):
            # [N, F] -> [P, 2 F]
            message, sends = gather(lin(state), ring.source).chunk(2, dim=-1)
            gate = (gather(receives, ring.target) + sends).sigmoid()
            both = torch.cat([gate * message, gate], dim=-1)
            both = both.new_zeros(x.size(0), both.size(-1)).index_add(0, ring.target, both)
            gated, weight = both.chunk(2, dim=-1)
            total = total + gated / (weight + 1e-6)
        return F.relu(normalize(self.norm, total))


class _MLP(Sequential):
    def __init__(self, channels: int, batch_norm: bool) -> None:
        norm = BatchNorm1d(channels) if batch_norm else Identity()
        super().__init__(Linear(channels, channels), norm, ReLU())

    def forward(self, x: Tensor) -> Tensor:
        lin, norm, act = self
        out: Tensor = act(normalize(norm, lin(x)))
        return out


_CARD = Card(
    equation="",
    reference="Gutteridge et al., DRew: Dynamically Rewired Message Passing with Delay, 2023 "
    "(arXiv:2305.08018)",
    cost="l (N F^2 + E_k F), with E_k pairs at distance k",
    departures=("Edge weights and attributes are not used, as in the long-range experiments.",),
)


class DRew(GraphModel):
    r"""The scheme of :class:`DRewGCN`, :class:`DRewGIN` and :class:`DRewGatedGCN`.

    Layer :math:`l = 0, 1, \ldots` hears the nodes at every distance :math:`k = 1, \ldots, l + 1`,
    those at distance :math:`k` as they were :math:`\tau_\nu(k) = \max(0, k - \nu)` layers ago.

    Args:
        num_layers (int): Number of layers :math:`L`.
        dropout (float, optional): Dropout after each layer.
        nu (int, optional): The distance :math:`\nu` up to which there is no delay; :obj:`None` for
            no delay at all. (default: :obj:`1`, the strongest)
        max_hops (int, optional): The largest distance; :obj:`None` for :math:`L`.
        batch_norm (bool, optional): Whether the layers normalise.
        head_layers (int, optional): Number of linear layers at the end.
        cached (bool, optional): Whether to remember the pairs of each graph.
    """

    layer_class: ClassVar[type[DRewGCNLayer | DRewGINLayer | DRewGatedGCNLayer]]
    adds_to_input = True
    normalizes_rings = False
    ignores_edge_weight: bool = True

    def __init__(
        self,
        *sizes: int,
        nu: int | None = 1,
        max_hops: int | None = None,
        batch_norm: bool = True,
        head_layers: int = 2,
        cached: bool = True,
        **shared: Unpack[ModelOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(nu=nu, max_hops=max_hops)
        self.nu = nu
        self.max_hops = self.num_layers if max_hops is None else min(max_hops, self.num_layers)
        self.rings = RingMatrices(self.max_hops, cached, self.normalizes_rings)
        self.lin = Linear(self.in_channels, self.hidden_channels)
        self.layers = ModuleList(
            self.layer_class(self.hidden_channels, min(layer + 1, self.max_hops), batch_norm)
            for layer in range(self.num_layers)
        )
        self.head = self.build_head(num_layers=head_layers)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        rings = self.rings.find(graph, x.dtype)
        # [N, C] -> [N, F]; all states are kept for the delay
        states: list[Tensor] = [self.lin(x)]
        for place, layer in enumerate(self.layers):
            hops = range(1, min(place + 1, self.max_hops) + 1)
            delays = [0 if self.nu is None else max(0, hop - self.nu) for hop in hops]
            delayed = [states[place - delay] for delay in delays]
            update = F.dropout(layer(states[place], delayed, rings), self.dropout, self.training)
            states.append(states[place] + update if self.adds_to_input else update)
        return states[-1]


class DRewGCN(DRew):
    r"""DRew with graph convolutions.

    .. math::
        \mathbf{h}_i^{(l+1)} = \mathbf{h}_i^{(l)} + \sigma \Big( \mathrm{BN} \Big(
        \sum_{k=1}^{l+1} \sum_{j : d(j, i) = k} \frac{1}{\sqrt{d_i^k d_j^k}} \mathbf{W}_k^{(l)}
        \mathbf{h}_j^{(l - \tau_\nu(k))} \Big) \Big),

    where :math:`d_i^k` counts the nodes at distance :math:`k`.
    """

    card = replace(
        _CARD,
        equation="h_i <- h_i + relu(BN(sum_(k<=l+1) sum_(d(j,i)=k) W_k h_j^(l - delay(k)) / "
        "sqrt(d_i^k d_j^k)))",
        departures=(
            "Follows the equation of the paper; the released code also adds self-loops at every "
            "distance, applies batch norm and ReLU to each term, and scales each state to length "
            "one.",
            *_CARD.departures,
        ),
    )
    layer_class = DRewGCNLayer
    normalizes_rings = True


class DRewGIN(DRew):
    r"""DRew with the isomorphism operator.

    .. math::
        \mathbf{h}_i^{(l+1)} = (1 + \epsilon) \, \mathrm{MLP}_s^{(l)} (\mathbf{h}_i^{(l)}) +
        \sum_{k=1}^{l+1} \mathrm{MLP}_k^{(l)} \Big( \sum_{j : d(j, i) = k}
        \mathbf{h}_j^{(l - \tau_\nu(k))} \Big),

    where each MLP is a linear layer, batch normalisation and ReLU, and :math:`\epsilon` is learned.
    """

    card = replace(
        _CARD,
        equation="h_i <- (1+e) MLP_s(h_i) + sum_(k<=l+1) MLP_k(sum_(d(j,i)=k) h_j^(l - delay(k)))",
        departures=(
            "MLP_k follows the sum and there are no weights between the distances, as in the "
            "released code; unlike there, MLP_k acts also where a batch has no pair at distance k.",
            "The paper's epsilon is learned; the released code keeps it at zero.",
            *_CARD.departures,
        ),
    )
    layer_class = DRewGINLayer
    adds_to_input = False


class DRewGatedGCN(DRew):
    r"""DRew with gated convolutions, without edge states.

    .. math::
        \mathbf{h}_i^{(l+1)} &= \mathbf{h}_i^{(l)} + \sigma \Big( \mathrm{BN} \Big( \mathbf{A}
        \mathbf{h}_i^{(l)} + \sum_{k=1}^{l+1} \frac{\sum_{j : d(j, i) = k} \eta_{ij} \odot
        \mathbf{B}_k \mathbf{h}_j^{(l - \tau_\nu(k))}}{\sum_{j : d(j, i) = k} \eta_{ij} + 10^{-6}}
        \Big) \Big), \\
        \eta_{ij} &= \mathrm{sigmoid} \big( \mathbf{D} \mathbf{h}_i^{(l)} + \mathbf{E}_k
        \mathbf{h}_j^{(l - \tau_\nu(k))} \big).
    """

    card = replace(
        _CARD,
        equation="h_i <- h_i + relu(BN(A h_i + sum_(k<=l+1) gated mean over distance k of B_k "
        "h_j^(l - delay(k))))",
    )
    layer_class = DRewGatedGCNLayer
