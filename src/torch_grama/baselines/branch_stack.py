"""Models that see each graph as a whole: the way in and out, and layers of several branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_model import GraphModel
from torch_grama.baselines.local_layers import build_local_layers
from torch_grama.nn.arguments import check_positive
from torch_grama.nn.graph_input import GraphInput, check_edge_attr, count_nodes
from torch_grama.nn.norms import StepwiseBatchNorm


class StackModel(GraphModel):
    r"""A linear map of the node features, layers that a subclass gives, and a head:

    .. math::
        \mathbf{Y} = \mathrm{Head}(\mathrm{Layers}(\mathbf{X} \mathbf{W} + \mathbf{b})).

    Edge weights are read by the layers that know what to do with them, edge attributes where the
    model was built with :obj:`edge_dim`.
    """

    ignores_edge_weight: bool = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        readout: str = "node",
        dropout: float = 0.0,
        readout_layers: int = 2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, readout, dropout)
        check_positive(edge_dim=edge_dim)
        self.edge_dim = edge_dim
        self.node_lin = Linear(in_channels, hidden_channels)
        self.edge_lin = None if edge_dim is None else Linear(edge_dim, hidden_channels)
        self.head = GraphHead(hidden_channels, out_channels, readout, readout_layers)

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Lays the batch out, embeds the features and propagates them."""
        if x.dim() != 2:
            raise ValueError(
                f"Expected 'x' of shape [num_nodes, channels] (got {list(x.size())}); lay the "
                f"elements of a sequence side by side"
            )
        count_nodes(x, self.in_channels, seq_len=1)
        view = BatchView.of(graph)
        edge_state = None
        if self.edge_lin is not None:
            check_edge_attr(graph.edge_attr, self.edge_dim, True)
            edge_state = self.edge_lin(graph.edge_attr)
        return self.propagate(self.embed(x, view), edge_state, view)

    def embed(self, x: Tensor, view: BatchView) -> Tensor:
        r"""Brings the node features to the width of the states."""
        del view
        out: Tensor = self.node_lin(x)
        return out

    def propagate(self, x: Tensor, edge_state: Tensor | None, view: BatchView) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        raise NotImplementedError


class BranchStack(StackModel):
    r"""Layers of a local and a global branch, which a subclass chooses.

    Args:
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"``, ``"gatedgcn"``,
            or :obj:`None` for no local branch.
        build_mixer (callable): Makes the global branch of a layer, called as ``mixer(x, view)``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        local: str | None,
        build_mixer: Callable[[], Module],
        readout: str = "node",
        dropout: float = 0.0,
        readout_layers: int = 2,
        edge_dim: int | None = None,
    ) -> None:
        sizes = (in_channels, hidden_channels, out_channels, num_layers)
        super().__init__(*sizes, readout, dropout, readout_layers, edge_dim)
        self.ignores_edge_weight = local != "gcn"
        self.locals = ModuleList()
        if local is not None:
            if local == "gcn" and edge_dim is not None:
                raise ValueError(
                    "Expected a local branch that uses edge attributes (got local='gcn' with "
                    "edge_dim set); use 'gatedgcn', 'gine' or 'gat'"
                )
            self.locals = build_local_layers(
                local, num_layers, hidden_channels, edge_dim is not None, dropout
            )
        self.mixers = ModuleList([build_mixer() for _ in range(num_layers)])
        branches = 1 if local is None else 2
        self.frames = ModuleList(
            [BranchSum(hidden_channels, branches, dropout) for _ in range(num_layers)]
        )

    def propagate(self, x: Tensor, edge_state: Tensor | None, view: BatchView) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        for layer, (mixer, frame) in enumerate(zip(self.mixers, self.frames, strict=True)):
            branches = [mixer(x, view)]
            if len(self.locals) > 0:
                update, edge_state = self.locals[layer](x, edge_state, view)
                branches.append(update)
            x = frame(x, branches)
        return x


class BranchSum(Module):
    r"""Residual branches side by side, summed, then a feed-forward part, as in `"Recipe for a
    General, Powerful, Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_:

    .. math::
        \mathbf{h} = \sum_k \mathrm{BN}_k \left( \mathbf{x} + \mathbf{u}_k \right), \qquad
        \mathbf{x}' = \mathrm{BN} \left( \mathbf{h} + \mathbf{W}_2 \,
        \mathrm{ReLU}(\mathbf{W}_1 \mathbf{h}) \right),

    where :math:`\mathbf{u}_k` is what branch :math:`k` made of :math:`\mathbf{x}` and the hidden
    width is twice that of the states. A batch of a single node has no variance and is normalised
    with the running statistics.

    Args:
        channels (int): Width of the states.
        num_branches (int): Number of branches.
        dropout (float, optional): Dropout after each branch and linear map. (default: :obj:`0.0`)
    """

    def __init__(self, channels: int, num_branches: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.channels = channels
        self.dropout = dropout
        self.branch_norms = ModuleList([StepwiseBatchNorm(channels) for _ in range(num_branches)])
        self.mlp = Sequential(
            Linear(channels, 2 * channels),
            ReLU(),
            Dropout(dropout),
            Linear(2 * channels, channels),
            Dropout(dropout),
        )
        self.norm = StepwiseBatchNorm(channels)

    def forward(self, x: Tensor, branches: Sequence[Tensor]) -> Tensor:
        r"""Returns the new states.

        Args:
            x (Tensor): The states :math:`(N, F)` that entered the branches.
            branches (sequence): What each branch gave, :math:`(N, F)` each.
        """
        hidden = x.new_zeros(())
        for norm, branch in zip(self.branch_norms, branches, strict=True):
            hidden = hidden + norm(x + F.dropout(branch, self.dropout, self.training))
        out: Tensor = self.norm(hidden + self.mlp(hidden))
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_branches={len(self.branch_norms)})"
