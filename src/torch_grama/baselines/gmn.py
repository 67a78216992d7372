"""State-space models over random-walk tokens and over nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, ModuleList
from torch.utils.checkpoint import checkpoint
from torch_geometric.utils import scatter

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.branch_sum import BranchSum
from torch_grama.baselines.local_layers import build_local_layers
from torch_grama.baselines.mamba_block import BidirectionalMamba
from torch_grama.baselines.stack_model import StackModel
from torch_grama.baselines.walk_tokens import WalkTokens, sample_walk_tokens
from torch_grama.nn.arguments import check_positive


class GMN(StackModel):
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
        No code of the authors is public. Readings taken: the walks are drawn once a forward pass
        and serve all layers; the encoder :math:`\phi` is as above; the scan over the tokens is
        read at the end of each direction, where it has seen them all; the frame with its
        feed-forward part is that of GPS; ties between degrees go by number. The walks come from
        PyTorch's global generator in training, and are fixed by the number of a node within its
        graph at test time. Memory is that of a model on :math:`m s + 1` times as many nodes.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        local (str, optional): The message-passing branch, ``"gcn"``, ``"gat"``, ``"gine"``,
            ``"gine-multi"`` or ``"gatedgcn"``. (default: :obj:`"gatedgcn"`)
        walk_length (int, optional): The longest walk :math:`m`. (default: :obj:`3`)
        num_samples (int, optional): Tokens a length :math:`s`. (default: :obj:`2`)
        num_walks (int, optional): Walks a token :math:`M`. (default: :obj:`2`)
        state_channels (int, optional): States a channel of the scans. (default: :obj:`16`)
        edge_dim (int, optional): Width of the edge attributes. (default: :obj:`None`)
        readout_layers (int, optional): Linear layers of the head. (default: :obj:`2`)

    Shapes:
        - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks
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
        local: str = "gatedgcn",
        walk_length: int = 3,
        num_samples: int = 2,
        num_walks: int = 2,
        state_channels: int = 16,
        edge_dim: int | None = None,
        readout_layers: int = 2,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            readout=readout,
            dropout=dropout,
            edge_dim=edge_dim,
            readout_layers=readout_layers,
        )
        check_positive(walk_length=walk_length, num_samples=num_samples, num_walks=num_walks)
        self.walk_length = walk_length
        self.num_samples = num_samples
        self.num_walks = num_walks
        has_edge_attr = edge_dim is not None
        self.locals = build_local_layers(local, num_layers, hidden_channels, has_edge_attr, dropout)
        self.scans = ModuleList(
            [_WalkScan(hidden_channels, state_channels, has_edge_attr) for _ in range(num_layers)]
        )
        self.frames = ModuleList(
            [BranchSum(hidden_channels, 2, dropout) for _ in range(num_layers)]
        )
        self.reset_parameters()

    def propagate(self, x: Tensor, edge_state: Tensor | None, view: BatchView) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
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
