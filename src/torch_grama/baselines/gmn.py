"""State-space models over random-walk tokens and over nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module
from torch.utils.checkpoint import checkpoint
from torch_geometric.utils import degree, scatter

from torch_grama.baselines.batch_view import BatchView, node_noise
from torch_grama.baselines.branch_stack import EdgeOptions, build_frames, build_local_layers
from torch_grama.baselines.graph_model import Card
from torch_grama.baselines.layer_stack import EncodedModel
from torch_grama.baselines.mamba_block import BidirectionalMamba
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.graph_input import GraphInput


class GMN(EncodedModel):
    r"""The graph Mamba network of `"Graph Mamba: Towards Learning on Graphs with State Space
    Models" <https://arxiv.org/abs/2402.08678>`_: every node is a sequence of subgraphs around it,
    which a bidirectional state-space model reads, and every graph is a sequence of nodes, which
    another one reads,

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

    .. note::
        Ties between degrees go by number. The walks come from PyTorch's global generator in
        training. Memory is that of a model on :math:`m s + 1` times as many nodes.

    Args:
        dropout (float, optional): Dropout inside the layers.
        local (str, optional): The message-passing branch, ``"gcn"``, ``"gat"``, ``"gine"``,
            ``"gine-multi"`` or ``"gatedgcn"``.
        walk_length (int, optional): The longest walk :math:`m`.
        num_samples (int, optional): Tokens a length :math:`s`.
        num_walks (int, optional): Walks a token :math:`M`.
        state_channels (int, optional): States per channel of the scans.
    """

    card = Card(
        equation="y_i = last(BiMamba(subgraphs of random walks from i, widest first)), u = "
        "BiMamba(y sorted by degree), h = BN(x + u) + BN(x + gatedgcn(x)), x' = BN(h + MLP(h))",
        reference="Behrouz and Hashemi, Graph Mamba: Towards Learning on Graphs with State Space "
        "Models, 2024",
        cost="T N F^2 + T S N F + E F, T tokens per node, S states per channel",
        equivariant=False,
        takes_edge_attr=True,
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
    drops_ends = False

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
        self.walk_length = walk_length
        self.num_samples = num_samples
        self.num_walks = num_walks
        self.ignores_edge_weight = local != "gcn"
        self.locals = build_local_layers(self, local)
        self.scans = self.per_layer(
            lambda: _WalkScan(self.hidden_channels, state_channels, self.edge_dim is not None)
        )
        self.frames = build_frames(self, 2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        view, edge_state = BatchView.of(graph), graph.edge_attr
        tokens = sample_walk_tokens(
            view, self.walk_length, self.num_samples, self.num_walks, self.training
        )
        order = view.sort_nodes(view.degrees())
        edge_attr = edge_state
        for local, scan, frame in zip(self.locals, self.scans, self.frames, strict=True):
            scanned = scan(x, edge_attr, tokens, order, view)
            update, edge_state = local(x, edge_state, view)
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
        message = self.neighbor_lin(x)[tokens.node[tokens.source]]
        if self.edge_lin is not None and edge_attr is not None:
            message = message + self.edge_lin(edge_attr)[tokens.edge]
        members = tokens.node.size(0)
        # [Q, F] -> [P, F] -> [N T, F]
        received = scatter(F.relu(message), tokens.target, dim_size=members, reduce="mean")
        state = F.relu(self.own_lin(x)[tokens.node] + received)
        total = x.size(0) * tokens.num_tokens
        pooled = scatter(state, tokens.token, dim_size=total, reduce="mean")
        return pooled.view(x.size(0), tokens.num_tokens, -1)


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
