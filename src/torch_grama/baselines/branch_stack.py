"""Layers of a local and a global branch."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import Module, ModuleList

from torch_grama.baselines.batch_view import BatchView
from torch_grama.baselines.branch_sum import BranchSum
from torch_grama.baselines.local_layers import build_local_layers
from torch_grama.baselines.stack_model import StackModel


class BranchStack(StackModel):
    r"""Layers of a local and a global branch, which a subclass chooses.

    Args:
        in_channels (int): Width of the node features.
        hidden_channels (int): Width of the states.
        out_channels (int): Width of the output.
        num_layers (int): Number of layers.
        local (str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"``,
            ``"gatedgcn"``, or :obj:`None` for no local branch.
        build_mixer (callable): Makes the global branch of a layer, called as
            ``mixer(x, view)``.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        dropout (float, optional): Dropout. (default: :obj:`0.0`)
        edge_dim (int, optional): Width of the edge attributes. (default: :obj:`None`)
        readout_layers (int, optional): Linear layers of the head. (default: :obj:`2`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        local: str | None,
        build_mixer: Callable[[], Module],
        readout: str = "node",
        dropout: float = 0.0,
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
