"""Encoders of categorical node and edge features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Embedding, Module, ModuleList

# Number of categories of each column of the Open Graph Benchmark's molecules: atomic number,
# chirality, degree, formal charge, hydrogens, radical electrons, hybridisation, aromatic, in ring.
ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
# Bond type, stereo configuration, conjugated.
BOND_SIZES = (5, 6, 2)


class CategoricalEncoder(Module):
    r"""Embeds categorical columns: one table a column, and the sum of their rows.

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

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"Expected 'sizes' to be positive, one a column (got {list(sizes)})")
        self.sizes = tuple(sizes)
        self.channels = channels
        self.tables = ModuleList([Embedding(size, channels) for size in sizes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for weight in self.tables.parameters():
            torch.nn.init.xavier_uniform_(weight)

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
        out = self.tables[0](x[:, 0])
        for column in range(1, len(self.sizes)):
            out = out + self.tables[column](x[:, column])
        embedding: Tensor = out
        return embedding

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
