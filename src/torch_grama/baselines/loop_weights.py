"""Edge weights that leave self-loops out."""

from __future__ import annotations

import torch
from torch import Tensor


def weigh_without_loops(
    edge_index: Tensor, edge_weight: Tensor | None, dtype: torch.dtype
) -> Tensor:
    r"""Returns the edge weights, ones where there are none, with zeros at self-loops.

    The edges stay where they are, so their number does not depend on their values.

    Args:
        edge_index (Tensor): Edges :math:`(2, E)`.
        edge_weight (Tensor, optional): Edge weights :math:`(E)`.
        dtype (torch.dtype): Type of the result.
    """
    is_loop = edge_index[0] == edge_index[1]
    if edge_weight is None:
        return (~is_loop).to(dtype)
    return torch.where(is_loop, 0.0, edge_weight.to(dtype))
