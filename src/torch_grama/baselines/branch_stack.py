"""Layers of several branches: local message passing beside what sees a graph as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.layer_stack import EncodedModel, HeadOptions
from torch_grama.baselines.local_layers import build_local_layers
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.norms import StepwiseBatchNorm


class EdgeOptions(HeadOptions, total=False):
    r"""Options of models that may read edge attributes."""

    edge_dim: int | None


class BranchStack(EncodedModel):
    r"""Layers of a local and a global branch, which a subclass chooses.

    Args:
        dropout (float, optional): Dropout inside the layers.
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"``, ``"gatedgcn"``,
            or :obj:`None` for no local branch.
        build_mixer (callable): Makes the global branch of a layer from the width of the states,
            called as ``mixer(x, view)``.
    """

    drops_ends = False

    def __init__(
        self,
        *sizes: int,
        local: str | None,
        build_mixer: Callable[[int], Module],
        **shared: Unpack[EdgeOptions],
    ) -> None:
        super().__init__(*sizes, **shared)
        channels, has_edge_attr = self.hidden_channels, self.edge_dim is not None
        self.ignores_edge_weight = local != "gcn"
        self.locals = ModuleList()
        if local is not None:
            if local == "gcn" and has_edge_attr:
                raise ValueError(
                    "Expected a local branch that uses edge attributes (got local='gcn' with "
                    "edge_dim set); use 'gatedgcn', 'gine' or 'gat'"
                )
            self.locals = build_local_layers(
                local, self.num_layers, channels, has_edge_attr, self.dropout
            )
        self.mixers = ModuleList([build_mixer(channels) for _ in range(self.num_layers)])
        self.frames = build_frames(self, 1 if local is None else 2)
        self.reset_parameters()

    def propagate(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Runs the layers on the node states :math:`(N, F)`."""
        view, edge_state = BatchView.of(graph), graph.edge_attr
        for layer, (mixer, frame) in enumerate(zip(self.mixers, self.frames, strict=True)):
            branches = [mixer(x, view)]
            if len(self.locals) > 0:
                update, edge_state = self.locals[layer](x, edge_state, view)
                branches.append(update)
            x = frame(x, branches)
        return x


def build_frames(model: EncodedModel, num_branches: int) -> ModuleList:
    r"""Returns the :class:`BranchSum` of each layer of a model."""
    sizes = model.hidden_channels, num_branches, model.dropout
    return ModuleList([BranchSum(*sizes) for _ in range(model.num_layers)])


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
