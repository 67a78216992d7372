"""Which nodes share coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_grama.nn.engine.index_tables import index_table


@dataclass(frozen=True, eq=False)
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
        return torch.searchsorted(self.batch.contiguous(), graphs)

    @cached_property
    def counts(self) -> Tensor:
        r"""Number of nodes of each graph, at least one, :math:`(B, 1, 1)`."""
        return self.starts.diff().clamp_(min=1).view(-1, 1, 1)

    def node_counts(self, num_nodes: int) -> Tensor | int:
        r"""Returns the number of nodes of each group, at least one."""
        return max(num_nodes, 1) if self.batch is None else self.counts

    def cuts(self, num_nodes: int, parts: int, device: torch.device) -> Tensor:
        r"""Returns where the nodes of each share start, if every graph is cut into as many even
        shares, :math:`(B \cdot \mathrm{parts} + 1)`.
        """
        if self.batch is None:
            return index_table(_even_cuts, device, num_nodes, parts)
        if parts == 1:
            return self.starts
        if parts not in self._cuts:
            share = torch.arange(parts, device=device)
            sizes = self.starts.diff()
            cuts = self.starts[:-1, None] + sizes[:, None] * share // parts
            self._cuts[parts] = torch.cat([cuts.flatten(), self.starts[-1:]])
        return self._cuts[parts]

    @cached_property
    def _cuts(self) -> dict[int, Tensor]:
        return {}


def _even_cuts(num_nodes: int, parts: int) -> list[int]:
    return [part * num_nodes // parts for part in range(parts + 1)]
