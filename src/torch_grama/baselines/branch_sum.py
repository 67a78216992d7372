"""The frame of a transformer layer around one or more branches."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn.inits import reset

from torch_grama.nn.norms import StepwiseBatchNorm


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

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for part in (*self.branch_norms, self.mlp, self.norm):
            reset(part)

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
