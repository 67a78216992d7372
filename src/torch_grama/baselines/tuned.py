"""Classic message-passing models with the recipes of the strong baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Unpack

from torch.nn import Module

from torch_grama.baselines.graph_model import Card, ModelOptions
from torch_grama.baselines.layer_stack import LayerStack
from torch_grama.baselines.message_passing import (
    build_attention_conv,
    build_gated_conv,
    build_gcn_conv,
    build_sage_conv,
)
from torch_grama.nn.arguments import Activation
from torch_grama.nn.neighbor_convs import NeighborSumConv
from torch_grama.nn.norms import NormLike

_CARD = Card(
    equation="",
    reference="Luo et al., Classic GNNs are Strong Baselines, 2024 (arXiv:2406.08993), and Can "
    "Classic GNNs Be Strong Baselines for Graph-level Tasks?, 2025 (arXiv:2502.09263)",
    cost="N F^2 + E F",
    departures=(
        "Graphs are read out by their mean unless pooling says otherwise; the recipe takes sum or "
        "maximum for some data sets.",
    ),
)


class _PassedOn(ModelOptions, total=False):
    act: str | Activation | None
    feed_forward: bool
    jumping: bool
    pre_linear: bool
    edge_dim: int | None


class TunedOptions(_PassedOn, total=False):
    readout_layers: int


class TunedNormOptions(TunedOptions, total=False):
    norm: NormLike
    residual: str | None


class TunedStack(LayerStack):
    r"""A stack of convolutions with the recipes of :class:`TunedGCN`.

    Args:
        edge_dim (int, optional): Width of the edge attributes, which are then encoded, by one map
            for all layers, and added to the messages.
    """

    def __init__(
        self,
        *sizes: int,
        build_conv: Callable[[int, int, bool], Module],
        norm: NormLike = "batch_norm",
        residual: str | None = "linear",
        readout_layers: int = 1,
        **shared: Unpack[_PassedOn],
    ) -> None:
        super().__init__(
            *sizes,
            build_conv=build_conv,
            norm=norm,
            residual=residual,
            readout_layers=readout_layers,
            **shared,
        )


class TunedGCN(TunedStack):
    r"""Graph convolutions with the recipes of two papers:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \sum_j \hat{a}_{ij} \mathbf{W} \mathbf{x}_j + \sum_j \mathbf{e}_{ij} + \mathbf{b} +
        \mathbf{R} \mathbf{x}_i \Big) \Big) \Big).

    The two recipes differ, and options say which one is meant. Node tasks (2024):
    ``residual="linear"``, layer or batch norm, dropout, one linear layer as readout. Graph tasks
    (2025): ``residual="identity"``, batch norm, dropout, often ``feed_forward=True``, edge
    attributes and positional encodings.
    """

    card = replace(
        _CARD,
        equation="x_i' = Dropout(act(BN(sum_j a_ij W x_j + sum_j e_ij + b + R x_i)))",
        source="torch_geometric.nn.GCNConv",
        departures=(
            "Edge attributes are added to each message, without the factor a_ij; the second "
            "paper's released layer applies ReLU to the message and drops the factor.",
            *_CARD.departures,
        ),
    )
    added_edges = "sum"

    def __init__(self, *sizes: int, **shared: Unpack[TunedNormOptions]) -> None:
        super().__init__(*sizes, build_conv=build_gcn_conv, **shared)


class TunedSAGE(TunedStack):
    r"""GraphSAGE with the recipes of :class:`TunedGCN`:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \mathbf{W}_1 \mathbf{x}_i + \frac{1}{|\mathcal{N}(i)|} \sum_j (\mathbf{W}_2 \mathbf{x}_j +
        \mathbf{e}_{ij}) + \mathbf{b} + \mathbf{R} \mathbf{x}_i \Big) \Big) \Big).
    """

    card = replace(
        _CARD,
        equation="x_i' = Dropout(act(BN(W1 x_i + mean_j (W2 x_j + e_ij) + b + R x_i)))",
        source="torch_geometric.nn.SAGEConv",
        departures=(
            "The mean is over the neighbours; the released code adds self-loops to the graph.",
            "The second paper has no GraphSAGE; edge attributes are added as for GCN.",
            *_CARD.departures,
        ),
    )
    takes_edge_weight: bool = False
    added_edges = "mean"

    def __init__(self, *sizes: int, **shared: Unpack[TunedNormOptions]) -> None:
        super().__init__(*sizes, build_conv=build_sage_conv, **shared)


class TunedGAT(TunedStack):
    r"""Graph attention with the recipes of :class:`TunedGCN`:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big(
        \sum_j \alpha_{ij} \mathbf{W} \mathbf{x}_j + \mathbf{b} + \mathbf{R} \mathbf{x}_i \Big)
        \Big) \Big),

    with the attention of :class:`~torch_grama.baselines.GAT`.

    Args:
        heads (int, optional): Number of attention heads, whose outputs lie side by side.
        edge_dim (int, optional): Width of the edge attributes, which then take part in the
            attention.
    """

    card = replace(
        _CARD,
        equation="x_i' = Dropout(act(BN(sum_j alpha_ij W x_j + b + R x_i)))",
        source="torch_geometric.nn.GATConv",
        departures=(
            "The second paper has no GAT; edge attributes take part in the attention.",
            *_CARD.departures,
        ),
    )
    takes_edge_weight: bool = False

    def __init__(self, *sizes: int, heads: int = 1, **shared: Unpack[TunedNormOptions]) -> None:
        has_edges = shared.get("edge_dim") is not None
        build_conv = partial(build_attention_conv, heads=heads, has_edges=has_edges)
        super().__init__(*sizes, build_conv=build_conv, **shared)


class TunedNeighborSum(TunedStack):
    r"""Sums over neighbours with the recipe for molecules of the second paper:

    .. math::
        \mathbf{x}'_i = \mathrm{Dropout} \Big( \sigma \Big( \mathrm{Norm} \Big( \sum_j
        \mathrm{ReLU} ( \mathbf{W} \mathbf{x}_j + \mathbf{b} + \mathbf{e}_{ij} ) \Big) \Big) \Big).

    The released code of the paper calls this layer GCN.

    Args:
        edge_dim (int, optional): Width of the edge attributes, which are then encoded, by one map
            for all layers.
    """

    card = replace(
        _CARD,
        equation="x_i' = Dropout(act(BN(sum_j ReLU(W x_j + b + e_ij))))",
        source="torch_grama.nn.NeighborSumConv",
    )
    takes_edge_weight: bool = False
    keeps_width = True

    def __init__(
        self,
        *sizes: int,
        norm: NormLike = "batch_norm",
        residual: str | None = None,
        **shared: Unpack[TunedOptions],
    ) -> None:
        def build_conv(in_channels: int, channels: int, is_last: bool) -> NeighborSumConv:
            return NeighborSumConv(channels, norm=None)

        super().__init__(*sizes, build_conv=build_conv, norm=norm, residual=residual, **shared)


class TunedGatedGCN(TunedStack):
    r"""Gated convolutions with the recipes of :class:`TunedGCN`:

    .. math::
        \mathbf{x}'_i = \mathbf{x}_i + \mathrm{Dropout} ( \sigma ( \mathrm{BN} (
        \mathrm{GatedGCN}(\mathbf{x}, \mathbf{e})_i ) ) ),

    with the gates and edge states of :class:`~torch_grama.baselines.GatedGCN`. The feed-forward
    part is normalised as the layer is. The first paper has no gated network.

    Args:
        norm (str, optional): ``"batch_norm"``, for nodes and edges, or :obj:`None`.
        normalize_gates (bool, optional): Whether the gates of a node's edges add up to one; if
            not, its messages are summed.
        edge_dim (int, optional): Width of the edge attributes; without, every edge starts from one
            learned vector.
    """

    card = replace(
        _CARD,
        equation="x_i' = x_i + Dropout(act(BN(GatedGCN(x, e)_i)))",
        cost="(N + E) F^2",
        source="torch_grama.nn.GatedGCNConv",
        departures=("Dropout falls on the nodes alone.", *_CARD.departures),
    )
    takes_edge_weight: bool = False
    has_edge_states = keeps_width = conv_normalizes = True

    def __init__(
        self,
        *sizes: int,
        norm: str | None = "batch_norm",
        normalize_gates: bool = True,
        residual: str | None = "identity",
        **shared: Unpack[TunedOptions],
    ) -> None:
        build_conv = partial(build_gated_conv, norm=norm, normalize_gates=normalize_gates)
        super().__init__(*sizes, build_conv=build_conv, norm=norm, residual=residual, **shared)
