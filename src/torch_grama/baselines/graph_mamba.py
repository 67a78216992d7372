"""State-space models over the nodes of a graph, and over random walks from each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module
from torch.utils.checkpoint import checkpoint
from torch_geometric.utils import degree, scatter

from torch_grama.baselines.branch_stack import BatchView, BranchStack, FramedModel, node_noise
from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EdgeOptions
from torch_grama.baselines.mamba_block import BidirectionalMamba, MambaBlock
from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine.adjacency import gather
from torch_grama.nn.graph_input import GraphInput


class GraphMamba(BranchStack):
    r"""A GPS layer whose global branch is a state-space model over the nodes of each graph, those
    of high degree last,

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \pi^{-1} \mathrm{Mamba}(\pi \mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})),

    where :math:`\pi` sorts by degree and, among nodes of one degree, at random. At test time the
    global branch is the mean over several orders.

    .. warning::
        The result depends on how the nodes are numbered: the order breaks ties between nodes of
        the same degree. Averaging over orders makes this smaller, not zero.

    Args:
        order (str, optional): ``"degree"``, or ``"random"`` to sort by the noise alone.
        num_orders (int, optional): Orders averaged at test time.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x sorted by degree + noise)), x' = BN(h "
        "+ MLP(h))",
        reference="Wang et al., Graph-Mamba: Towards Long-Range Graph Sequence Modeling with "
        "Selective State Spaces, 2024 (arXiv:2402.00789)",
        cost="N F^2 + S N F + E F, S states per channel; five times the scan at test time",
        equivariant=False,
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

        def build_mixer(channels: int) -> Module:
            block = MambaBlock(channels, state_channels, expansion=expansion)
            return NodeScan(block, key, num_orders)

        super().__init__(*sizes, local=local, build_mixer=build_mixer, **shared)


class GPSMamba(BranchStack):
    r"""GPS with a state-space model in place of the attention:

    .. math::
        \mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathrm{MPNN}(\mathbf{x})) +
        \mathrm{BN}(\mathbf{x} + \mathrm{Mamba}(\mathbf{x})), \qquad
        \mathbf{x}' = \mathrm{BN}(\mathbf{h} + \mathrm{MLP}(\mathbf{h})).

    .. warning::
        The result depends on how the nodes are numbered: the nodes of each graph are scanned in
        the order in which they are stored.
    """

    card = Card(
        equation="h = BN(x + gatedgcn(x)) + BN(x + Mamba(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024 (arXiv:2402.08678; baseline of that paper)",
        cost="N F^2 + S N F + E F, S states per channel",
        equivariant=False,
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
    r"""A :class:`MambaBlock` over the nodes of each graph, sorted by a key with noise: the mean
    over several orders, or over one in training.
    """

    def __init__(
        self, block: Module, key: Callable[[BatchView, Tensor], Tensor], num_orders: int
    ) -> None:
        super().__init__()
        check_positive(num_orders=num_orders)
        self.block, self.key, self.num_orders = block, key, num_orders

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


class GMN(FramedModel):
    r"""Every node is a sequence of subgraphs around it, which a bidirectional state-space model
    reads, and every graph is a sequence of nodes, which another one reads,

    .. math::
        \boldsymbol{\Phi}_i = \left[ \phi(G[T_{m,1}(i)]), \ldots, \phi(G[T_{1,s}(i)]),
        \phi(G[\{i\}]) \right], \qquad
        \mathbf{y}_i = \phi(G[\{i\}]) + \mathrm{last} \left(
        \mathrm{BiMamba}(\mathrm{LN}(\boldsymbol{\Phi}_i)) \right), \qquad
        \mathbf{u} = \pi^{-1} \mathrm{BiMamba}(\pi \mathbf{y}),

    where each direction is read at its own end, :math:`T_{\hat m, j}(i)` are the nodes that
    :math:`M` random walks of :math:`\hat m` steps from :math:`i` have seen, and :math:`\pi` sorts
    the nodes of a graph by degree. The encoder of a subgraph is one round of message passing and
    a mean,

    .. math::
        \phi(G[T]) = \frac{1}{|T|} \sum_{i \in T} \mathrm{ReLU} \Big( \mathbf{W}_1 \mathbf{x}_i +
        \mathrm{mean}_{j \in T, \, j \to i} \mathrm{ReLU}(\mathbf{W}_2 \mathbf{x}_j +
        \mathbf{W}_3 \mathbf{e}_{ij}) \Big).

    The result stands beside a message-passing branch, in the frame of a GPS layer:
    :math:`\mathbf{h} = \mathrm{BN}(\mathbf{x} + \mathbf{u}) + \mathrm{BN}(\mathbf{x} +
    \mathrm{MPNN}(\mathbf{x}))`, :math:`\mathbf{x}' = \mathrm{BN}(\mathbf{h} +
    \mathrm{MLP}(\mathbf{h}))`.

    .. warning::
        The result depends on how the nodes are numbered: the walks at test time do, and the order
        of nodes of the same degree does.

    Memory is that of a model on :math:`m s + 1` times as many nodes.

    Args:
        walk_length (int, optional): The longest walk :math:`m`.
        num_samples (int, optional): Tokens a length :math:`s`.
        num_walks (int, optional): Walks a token :math:`M`.
        state_channels (int, optional): States per channel of the scans.
    """

    card = Card(
        equation="y_i = last(BiMamba(subgraphs of random walks from i, widest first)), u = "
        "BiMamba(y sorted by degree), h = BN(x + u) + BN(x + gatedgcn(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024 (arXiv:2402.08678)",
        cost="T N F^2 + T S N F + E F, T tokens per node, S states per channel",
        equivariant=False,
        departures=(
            "No code of the authors is public; this is a reading of the paper.",
            "Subgraphs are encoded by one round of message passing and a mean; each direction of "
            "the scan over them is read at its end.",
            "Walks are drawn once per forward pass for all layers; at test time they are fixed by "
            "the number of a node within its graph.",
            "The frame around the scans, with its feed-forward part, is that of GPS.",
        ),
    )
    ignores_edge_weight: bool = True

    def __init__(
        self,
        *sizes: int,
        local: str = "gatedgcn",
        walk_length: int = 3,
        num_samples: int = 2,
        num_walks: int = 2,
        state_channels: int = 16,
        **shared: Unpack[EdgeOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        check_positive(walk_length=walk_length, num_samples=num_samples, num_walks=num_walks)
        self.walk_sizes = walk_length, num_samples, num_walks
        self.locals = self.build_locals(local)
        self.scans = self.per_layer(
            lambda: _WalkScan(self.hidden_channels, state_channels, self.edge_dim is not None)
        )
        self.frames = self.build_frames(2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        tokens = sample_walk_tokens(view, *self.walk_sizes, self.training)
        order = view.sort_nodes(view.degrees())
        edge_attr = edge_state
        for local, scan, frame in zip(self.locals, self.scans, self.frames, strict=True):
            scanned = scan(x, edge_attr, tokens, order, view)
            update, edge_state = local(x, graph, edge_state)
            x = frame(x, [scanned, update])
        return x


class _WalkScan(Module):
    """The encoder of the tokens, the scan over them, and the scan over the nodes."""

    def __init__(self, channels: int, state_channels: int, has_edge_attr: bool) -> None:
        super().__init__()
        self.own_lin = Linear(channels, channels)
        self.neighbor_lin = Linear(channels, channels)
        self.edge_lin = Linear(channels, channels, bias=False) if has_edge_attr else None
        self.norm = LayerNorm(channels)
        self.token_scan = BidirectionalMamba(channels, state_channels)
        self.node_scan = BidirectionalMamba(channels, state_channels)

    def forward(
        self,
        x: Tensor,
        edge_attr: Tensor | None,
        tokens: WalkTokens,
        order: Tensor,
        view: BatchView,
    ) -> Tensor:
        # [N, F] -> [N, T, F]; the members of the tokens are many and soon gathered again
        sequence: Tensor = checkpoint(self.encode, x, edge_attr, tokens, use_reentrant=False)
        # [N, T, F] -> [N, F] -> [B, n, F], in the order of the degrees
        summary = sequence[:, -1] + self.token_scan.summarize(self.norm(sequence))
        dense = view.pack(summary[order])
        scanned = view.unpack(self.node_scan(dense, view.sizes))
        return torch.empty_like(scanned).index_copy(0, order, scanned)

    def encode(self, x: Tensor, edge_attr: Tensor | None, tokens: WalkTokens) -> Tensor:
        """One round of message passing within each token, and the mean over it."""
        message = gather(self.neighbor_lin(x), tokens.node[tokens.source])
        if self.edge_lin is not None and edge_attr is not None:
            message = message + gather(self.edge_lin(edge_attr), tokens.edge)
        members = tokens.node.size(0)
        # [Q, F] -> [P, F] -> [N T, F]
        received = scatter(F.relu(message), tokens.target, dim_size=members, reduce="mean")
        state = F.relu(gather(self.own_lin(x), tokens.node) + received)
        total = x.size(0) * tokens.num_tokens
        pooled = scatter(state, tokens.token, dim_size=total, reduce="mean")
        return pooled.view(x.size(0), tokens.num_tokens, x.size(1))


@dataclass(frozen=True, eq=False)
class WalkTokens:
    r"""The tokens of all nodes: for each node a sequence of subgraphs, the widest first and the
    node alone last.
    """

    num_tokens: int  #: tokens a node :math:`T`
    node: Tensor  #: the node of each member of a token :math:`(P)`
    #: the token of each member, :math:`T` times its owner plus its place in the sequence
    #: :math:`(P)`
    token: Tensor
    source: Tensor  #: the member at the start of each edge within a token :math:`(Q)`
    target: Tensor  #: the member at its end :math:`(Q)`
    edge: Tensor  #: the edge of the graph that it is :math:`(Q)`


def sample_walk_tokens(
    view: BatchView, max_length: int, num_samples: int, num_walks: int, training: bool
) -> WalkTokens:
    r"""Samples the tokens of each node.

    For each length :math:`\hat m = m, \ldots, 1` there are :math:`s` tokens, each the subgraph of
    the graph on the nodes that :math:`M` random walks of :math:`\hat m` steps from the node have
    seen; then comes the node alone. A walk that can go nowhere stays where it is. Outside of
    training, walks are fixed by the number of each node within its graph.
    """
    num_nodes = view.num_nodes
    num_tokens = max_length * num_samples + 1
    # the targets of the edges of each node, side by side
    edge_order = torch.argsort(view.edge_index[0] * num_nodes + view.edge_index[1], stable=True)
    neighbors = view.edge_index[1, edge_order]
    count = degree(view.edge_index[0], num_nodes, torch.long)
    first = count.cumsum(0) - count

    nodes = torch.arange(num_nodes, device=view.graph.device)
    own_tokens = nodes * num_tokens
    walkers = num_samples * num_walks
    steps = max_length * (max_length + 1) // 2
    noise = node_noise(view.place, steps * walkers, training, torch.float64)
    # token * N + node, for each member
    keys = [(own_tokens + num_tokens - 1) * num_nodes + nodes]
    sample = torch.arange(walkers, device=nodes.device) // num_walks
    column = 0
    for length in range(max_length, 0, -1):
        # [N, s M]: where each walk is
        here = nodes.unsqueeze(1).expand(-1, walkers)
        token = own_tokens.unsqueeze(1) + (max_length - length) * num_samples + sample
        keys.append((token * num_nodes + here).flatten())
        for _ in range(length):
            draw = noise[:, column : column + walkers]
            column += walkers
            here = _step(here, draw, neighbors, first, count)
            keys.append((token * num_nodes + here).flatten())
    members = torch.cat(keys).unique()
    token, node = members // num_nodes, members % num_nodes

    # every edge of a member leads within its token or out of it
    repeats = count[node]
    source = torch.arange(node.size(0), device=nodes.device).repeat_interleave(repeats)
    start = (repeats.cumsum(0) - repeats)[source]
    edge = first[node[source]] + torch.arange(source.size(0), device=nodes.device) - start
    wanted = token[source] * num_nodes + neighbors[edge]
    target = torch.searchsorted(members, wanted).clamp(max=max(members.size(0) - 1, 0))
    is_inside = members[target] == wanted
    return WalkTokens(
        num_tokens,
        node=node,
        token=token,
        source=source[is_inside],
        target=target[is_inside],
        edge=edge_order[edge[is_inside]],
    )


def _step(here: Tensor, draw: Tensor, neighbors: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Moves each walk along an edge chosen by a number in [0, 1)."""
    if neighbors.numel() == 0:
        return here
    choices = count[here]
    choice = (draw * choices).long()
    place = (first[here] + choice).clamp(max=neighbors.numel() - 1)
    return torch.where(choices > 0, neighbors[place], here)
