"""Attention, or a state-space model, over all nodes of a graph beside local message passing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.baselines.batch_view import BatchView, node_noise
from torch_grama.baselines.branch_stack import LOCAL_LAYERS, BranchStack, EdgeOptions
from torch_grama.baselines.global_attention import BigBirdAttention, FullAttention, LinearAttention
from torch_grama.baselines.graph_model import POSITIONS, Card
from torch_grama.baselines.layer_stack import HeadOptions
from torch_grama.baselines.mamba_block import MambaBlock
from torch_grama.nn.arguments import check_positive, choose

ATTENTIONS: dict[str, Callable[[int, int, float], Module]] = {
    "multihead": FullAttention,
    "performer": LinearAttention,
    "bigbird": BigBirdAttention,
}


class GPS(BranchStack):
    r"""The general, powerful, scalable graph transformer of `"Recipe for a General, Powerful,
    Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. note::
        The Performer has PyG's ReLU kernel instead of the softmax kernel of the paper's code. The
        first linear map takes encoded features to the hidden width also where they have it already.

    .. warning::
        What BigBird sees depends on how the nodes are numbered.

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
        attention (str, optional): ``"multihead"``, or ``"performer"`` or ``"bigbird"`` for large
            graphs.
        attention_dropout (float, optional): Dropout of the attention.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + multihead(x)), x' = BN(h + MLP(h))",
        reference="Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, "
        "2022",
        cost="N F^2 + n N F + E F, n nodes per graph",
        source="torch_grama, with torch.nn.MultiheadAttention and the PyG operators",
        takes_edge_attr=True,
        departures=(POSITIONS,),
    )

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        attention: str = "multihead",
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        build = choose("attention", attention, ATTENTIONS)
        choose("local", local, LOCAL_LAYERS)
        super().__init__(
            *sizes,
            local=local,
            build_mixer=lambda channels: build(channels, heads, attention_dropout),
            **shared,
        )


class Transformer(BranchStack):
    r"""The Transformer of the `"Long Range Graph Benchmark" <https://arxiv.org/abs/2206.08164>`_:
    every node attends to every node of its graph and the edges are not seen,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{Attention}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    What it knows of the graph it knows from positional encodings among the node features.

    Args:
        attention_dropout (float, optional): Dropout of the attention weights; the benchmark has
            0.5.
    """

    card = Card(
        equation="h = BN(x + attention(x)), x' = BN(h + MLP(h)), over all nodes of a graph",
        reference="Dwivedi et al., Long Range Graph Benchmark, 2022",
        cost="N F^2 + n N F, n nodes per graph",
        source="torch.nn.MultiheadAttention",
        departures=(POSITIONS,),
    )

    def __init__(
        self,
        *sizes: int,
        heads: int = 4,
        attention_dropout: float = 0.0,
        **shared: Unpack[HeadOptions],
    ) -> None:
        super().__init__(
            *sizes,
            local=None,
            build_mixer=lambda channels: FullAttention(channels, heads, attention_dropout),
            **shared,
        )


class GraphMamba(BranchStack):
    r"""The model of `"Graph-Mamba: Towards Long-Range Graph Sequence Modeling with Selective State
    Spaces" <https://arxiv.org/abs/2402.00789>`_: a GPS layer whose global branch is a state-space
    model over the nodes of each graph, those of high degree last,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \pi^{-1} \mathrm{Mamba}(\pi \mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where :math:`\pi` sorts by degree and, among nodes of one degree, at random. At test time the
    global branch is the mean over several orders.

    .. warning::
        The result depends on how the nodes are numbered: the order breaks ties between nodes of
        the same degree. Averaging over orders makes this smaller, not zero.

    .. note::
        A trained model gives the same result every time. Memory is linear in the nodes.

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
        order (str, optional): ``"degree"``, or ``"random"`` to sort by the noise alone.
        num_orders (int, optional): Orders averaged at test time.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x sorted by degree + noise)), x' = BN(h "
        "+ MLP(h))",
        reference="Wang et al., Graph-Mamba: Towards Long-Range Graph Sequence Modeling with "
        "Selective State Spaces, 2024",
        cost="N F^2 + S N F + E F, S states per channel; five times the scan at test time",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "The five orders of the test are fixed by the number of a node within its graph; the "
            "paper's code draws them anew.",
            "No random buckets for large graphs: one graph is one sequence.",
            "The scan is plain PyTorch, parallel within chunks; no compiled kernel.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        order: str = "degree",
        num_orders: int = 5,
        state_channels: int = 16,
        expansion: int = 1,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        key = choose("order", order, ORDERS)
        choose("local", local, LOCAL_LAYERS)

        def build_mixer(channels: int) -> Module:
            return NodeScan(
                MambaBlock(channels, state_channels, expansion=expansion), key, num_orders
            )

        super().__init__(*sizes, local=local, build_mixer=build_mixer, **shared)


class GPSMamba(BranchStack):
    r"""GPS with a state-space model in place of the attention, the baseline "GPS + Mamba" of
    `"Graph Mamba: Towards Learning on Graphs with State Space Models"
    <https://arxiv.org/abs/2402.08678>`_:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Mamba}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. warning::
        The result depends on how the nodes are numbered: the nodes of each graph are scanned in
        the order in which they are stored.

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or ``"gatedgcn"``.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024 (baseline of that paper)",
        cost="N F^2 + S N F + E F, S states per channel",
        equivariant=False,
        takes_edge_attr=True,
        departures=(
            "The paper says neither order, direction nor local branch: taken are the stored "
            "order, one direction and GatedGCN.",
        ),
    )

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        state_channels: int = 16,
        expansion: int = 1,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        choose("local", local, LOCAL_LAYERS)

        def build_mixer(channels: int) -> Module:
            return StoredScan(MambaBlock(channels, state_channels, expansion=expansion))

        super().__init__(*sizes, local=local, build_mixer=build_mixer, **shared)


def _by_degree(view: BatchView, noise: Tensor) -> Tensor:
    return view.degrees() + noise


def _at_random(view: BatchView, noise: Tensor) -> Tensor:
    return noise


ORDERS: dict[str, Callable[[BatchView, Tensor], Tensor]] = {
    "degree": _by_degree,
    "random": _at_random,
}


class NodeScan(Module):
    r"""A :class:`MambaBlock` over the nodes of each graph, sorted by a key with noise:

    .. math::
        \mathbf{u} = \frac{1}{R} \sum_{r=1}^R \pi_r^{-1} \left( \mathrm{Mamba}(\pi_r(\mathbf{x}))
        \right), \qquad \pi_r = \mathrm{argsort}_i (\deg(i) + \epsilon_{r,i}), \quad
        \epsilon_{r,i} \in [0, 1),

    with one order (:math:`R = 1`) in training.
    """

    def __init__(
        self, block: Module, key: Callable[[BatchView, Tensor], Tensor], num_orders: int
    ) -> None:
        super().__init__()
        check_positive(num_orders=num_orders)
        self.block = block
        self.key = key
        self.num_orders = num_orders

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        count = 1 if self.training else self.num_orders
        # single precision would let a large degree swallow the noise
        noise = node_noise(view.place, count, self.training, torch.float64)
        scans = []
        for column in noise.unbind(dim=1):
            order = view.sort_nodes(self.key(view, column))
            scanned = view.unpack(self.block(view.pack(x[order])))
            scans.append(torch.empty_like(scanned).index_copy(0, order, scanned))
        return torch.stack(scans).mean(dim=0)


class StoredScan(Module):
    r"""A state-space model over the nodes of each graph in the order in which they are stored."""

    def __init__(self, block: Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, view: BatchView) -> Tensor:
        return view.unpack(self.block(view.pack(x)))
