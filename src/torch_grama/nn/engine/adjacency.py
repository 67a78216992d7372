"""A weighted adjacency matrix, prepared once for many sparse products, and linear maps with it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from torch import Tensor

# The type of sums over edges for states of a type: the same, and never below float32, since a sum
# of ones in bfloat16 ends at 256.
value_type = partial(torch.promote_types, torch.float32)


def gather(x: Tensor, index: Tensor) -> Tensor:
    r"""Returns a row of :math:`\mathbf{x}` for each edge, in the type of sums over edges: the
    gradient of a row is such a sum too.
    """
    # not x[index], whose gradient sorts the edges at every call
    return x.to(value_type(x.dtype)).index_select(0, index)


@dataclass(frozen=True, eq=False)
class CSR:
    r"""A sparse :math:`N \times N` matrix by rows: starts :math:`(N + 1)` and columns in int32."""

    row_start: Tensor
    column: Tensor
    value: Tensor

    @classmethod
    def from_entries(cls, row: Tensor, column: Tensor, value: Tensor, num_rows: int) -> CSR:
        r"""Sorts entries by row, without waiting for the device."""
        # 32-bit keys take half the passes
        sorted_row, order = row.int().sort(stable=True)
        boundaries = torch.arange(num_rows + 1, dtype=torch.int32, device=row.device)
        row_start = torch.searchsorted(sorted_row, boundaries, out_int32=True)
        return cls(row_start, column.int().index_select(0, order), value.index_select(0, order))

    @cached_property
    def matrix(self) -> Tensor:
        size = (self.row_start.numel() - 1,) * 2
        with warnings.catch_warnings():
            # torch announces once that this layout is in beta, and some versions that what we turn
            # off is off; nothing for the user to do
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
            return torch.sparse_csr_tensor(
                self.row_start, self.column, self.value, size, check_invariants=False
            )


@dataclass(frozen=True, eq=False)
class Adjacency:
    r"""A weighted adjacency matrix :math:`\mathbf{A}`, given by its entries :math:`(E)`.

    With :obj:`trains` the transposed matrix will be wanted too, and both are made at once.
    """

    target: Tensor
    source: Tensor
    value: Tensor
    num_nodes: int
    trains: bool = field(default_factory=torch.is_grad_enabled)

    @cached_property
    def csr(self) -> CSR:
        if self.trains:
            return self._both[0]
        return CSR.from_entries(self.target, self.source, self.value, self.num_nodes)

    @cached_property
    def transposed(self) -> CSR:
        if self.trains:
            return self._both[1]
        return CSR.from_entries(self.source, self.target, self.value, self.num_nodes)

    @cached_property
    def _both(self) -> tuple[CSR, CSR]:
        # one above the other, so that one sort makes both
        both = CSR.from_entries(
            torch.cat([self.target, self.source + self.num_nodes]),
            torch.cat([self.source, self.target]),
            torch.cat([self.value, self.value]),
            2 * self.num_nodes,
        )
        middle, count = self.num_nodes, self.value.numel()
        return (
            CSR(both.row_start[: middle + 1], both.column[:count], both.value[:count]),
            CSR(both.row_start[middle:] - count, both.column[count:], both.value[count:]),
        )

    def propagate(self, x: Tensor) -> Tensor:
        r"""Returns :math:`\mathbf{A} \mathbf{x}` in what compilers and exporters know."""
        messages = gather(x, self.source)
        messages = messages * self.value.to(messages.dtype).unsqueeze(-1)
        return messages.new_zeros(x.size()).index_add(0, self.target, messages).to(x.dtype)


@dataclass(frozen=True, eq=False)
class LinearMap:
    r"""The affine map :math:`\mathbf{f} \mapsto \mathbf{A} \mathbf{f} \mathbf{W} +
    \mathbf{f} \mathbf{W}_{\mathrm{root}} + \mathbf{b} + \mathbf{S}` on node states.

    A callable like any backbone, and one that the fast engines can read.

    Attributes:
        adjacency: The matrix :math:`\mathbf{A}`.
        weight: The matrix :math:`\mathbf{W}`, :math:`(F, F)`.
        root_weight: The matrix :math:`\mathbf{W}_{\mathrm{root}}`, :math:`(F, F)`, if any.
        bias: The vector :math:`\mathbf{b}`, :math:`(F)`, if any.
        source: What is added to each node, :math:`\mathbf{S}`, :math:`(N, F)`, if anything is.
    """

    adjacency: Adjacency
    weight: Tensor
    root_weight: Tensor | None = None
    bias: Tensor | None = None
    source: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        out = self.adjacency.propagate(x @ self.weight)
        if self.root_weight is not None:
            out = out + x @ self.root_weight
        if self.source is not None:
            out = out + self.source
        return out if self.bias is None else out + self.bias

    def scale(self, gain: Tensor | None) -> LinearMap:
        r"""Returns the map times a scalar."""
        if gain is None:
            return self
        return LinearMap(
            self.adjacency,
            gain * self.weight,
            None if self.root_weight is None else gain * self.root_weight,
            None if self.bias is None else gain * self.bias,
            None if self.source is None else gain * self.source,
        )
