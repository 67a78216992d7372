"""Encoders of categorical features and of positional encodings."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, Parameter, ReLU, Sequential
from torch_geometric.nn.inits import reset

from torch_grama.nn.norms import StepwiseBatchNorm

# Number of categories of each column of the Open Graph Benchmark's molecules: atomic number,
# chirality, degree, formal charge, hydrogens, radical electrons, hybridisation, aromatic, in ring.
ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
# Bond type, stereo configuration, conjugated.
BOND_SIZES = (5, 6, 2)
# With more categories than this in all columns together, rows are looked up.
_LONGEST_ROW = 512


class CategoricalEncoder(Module):
    r"""Embeds categorical columns: one table per column, and the sum of their rows.

    Args:
        sizes (sequence of int): Number of categories of each column.
        channels (int): Width of the embedding.

    Shapes:
        - **input:** categories :math:`(N, C)`, or :math:`(N)` for a single column, integer
        - **output:** :math:`(N, F)`

    Example:
        >>> CategoricalEncoder([4, 2], 16)(torch.tensor([[3, 1], [0, 0]])).size()
        torch.Size([2, 16])
    """

    limits: Tensor
    starts: Tensor

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"Expected 'sizes' to be positive, one per column (got {list(sizes)})")
        self.sizes = tuple(sizes)
        self.channels = channels
        # the tables of all columns, one above the other
        self.weight = Parameter(torch.empty(sum(sizes), channels))
        limits = torch.tensor(self.sizes)
        self.register_buffer("limits", limits, persistent=False)
        self.register_buffer("starts", limits.cumsum(0) - limits, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for table in self.weight.split(list(self.sizes)):
            torch.nn.init.xavier_uniform_(table)

    def forward(self, x: Tensor) -> Tensor:
        r"""Returns the embedding of each row."""
        if x.dim() == 1:
            x = x.unsqueeze(-1)
        if x.dim() != 2 or x.size(1) != len(self.sizes):
            raise ValueError(
                f"Expected categorical features of shape [num_rows, {len(self.sizes)}] "
                f"(got {list(x.size())})"
            )
        if x.is_floating_point():
            raise TypeError(f"Expected integer categories (got {x.dtype})")
        known = (x >= 0) & (x < self.limits)
        if x.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(known.all()):
            row, column = known.logical_not().nonzero()[0].tolist()
            raise ValueError(
                f"Expected categories from 0 to {self.sizes[column] - 1} in column {column} (got "
                f"{int(x[row, column])} in row {row})"
            )
        index = torch.where(known, x, 0) + self.starts
        # elsewhere nobody waits to look: a category that is not there makes the result NaN
        share = torch.where(known, 1.0, torch.nan).to(self.weight.dtype)
        if self.weight.size(0) > _LONGEST_ROW:
            return (F.embedding(index, self.weight) * share.unsqueeze(-1)).sum(dim=1)
        # Rows of zeros and ones times the tables: one product for all columns, and one for its
        # gradient, which does not depend on the order of additions as that of a lookup does.
        rows = share.new_zeros(x.size(0), self.weight.size(0)).scatter(1, index, share)
        return rows @ self.weight

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.sizes)}, {self.channels})"


class AtomEncoder(CategoricalEncoder):
    r"""Embeds the nine atom columns of the Open Graph Benchmark's molecules.

    Args:
        channels (int): Width of the embedding.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(ATOM_SIZES, channels)


class BondEncoder(CategoricalEncoder):
    r"""Embeds the three bond columns of the Open Graph Benchmark's molecules.

    Args:
        channels (int): Width of the embedding.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(BOND_SIZES, channels)


class PositionEncoder(Module):
    r"""Encodes positional and structural encodings: batch norm, then an MLP of two layers for
    random-walk encodings, and nothing more for Laplacian eigenvectors.

    Eigenvectors are coordinates: attention reads distances from their products, which an MLP
    bends.

    Args:
        in_channels (int): Number of columns of the encodings.
        channels (int): Width of the result of the MLP.
        num_eigenvectors (int, optional): How many of the columns, the last ones, are eigenvectors.
            (default: :obj:`0`)

    Shapes:
        - **input:** encodings :math:`(N, K)`
        - **output:** :math:`(N, F + V)` with :math:`V` eigenvectors, :math:`(N, V)` if there is
          nothing else
    """

    def __init__(self, in_channels: int, channels: int, num_eigenvectors: int = 0) -> None:
        super().__init__()
        if in_channels < 1 or channels < 1:
            raise ValueError(
                f"Expected 'in_channels' and 'channels' to be at least 1 (got {in_channels} and "
                f"{channels})"
            )
        if not 0 <= num_eigenvectors <= in_channels:
            raise ValueError(
                f"Expected 'num_eigenvectors' to be from 0 to in_channels={in_channels} (got "
                f"{num_eigenvectors})"
            )
        self.in_channels = in_channels
        self.channels = channels
        self.num_eigenvectors = num_eigenvectors
        self.norm = StepwiseBatchNorm(in_channels)
        self.mlp = None
        self.out_channels = num_eigenvectors
        if walks := in_channels - num_eigenvectors:
            first, second = Linear(walks, 2 * channels), Linear(2 * channels, channels)
            self.mlp = Sequential(first, ReLU(), second)
            self.out_channels += channels

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(self, pe: Tensor) -> Tensor:
        r"""Returns the encoded positions."""
        normed: Tensor = self.norm(pe)
        if self.mlp is None:
            return normed
        walks = self.in_channels - self.num_eigenvectors
        return torch.cat([self.mlp(normed[:, :walks]), normed[:, walks:]], dim=1)

    def __repr__(self) -> str:
        vectors = f", num_eigenvectors={self.num_eigenvectors}" if self.num_eigenvectors else ""
        return f"{type(self).__name__}({self.in_channels}, {self.channels}{vectors})"
