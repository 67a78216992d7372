"""Which nodes share coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    r"""The graphs of a batch, as the inner products see them.

    Attributes:
        batch: The graph of each node :math:`(N)`, sorted; :obj:`None` if all nodes form one group.
        num_graphs: Number of groups :math:`B`.
    """

    batch: Tensor | None = None
    num_graphs: int = 1

    @cached_property
    def starts(self) -> Tensor:
        r"""Where the nodes of each graph start :math:`(B + 1)`."""
        assert self.batch is not None
        graphs = torch.arange(self.num_graphs + 1, device=self.batch.device)
        return torch.searchsorted(self.batch, graphs)

    @cached_property
    def counts(self) -> Tensor:
        r"""Number of nodes of each graph, at least one, :math:`(B, 1, 1)`."""
        return self.starts.diff().clamp_(min=1).view(-1, 1, 1)

    def node_counts(self, num_nodes: int) -> Tensor | int:
        r"""Returns the number of nodes of each group, at least one."""
        return max(num_nodes, 1) if self.batch is None else self.counts
