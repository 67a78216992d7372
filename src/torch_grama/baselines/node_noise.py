"""Numbers between 0 and 1 for each node: drawn in training, fixed at test time."""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def node_noise(place: Tensor, columns: int, training: bool, dtype: torch.dtype) -> Tensor:
    r"""Returns noise in :math:`[0, 1)` for each node.

    In training it comes from PyTorch's global generator. At test time it is a hash of the number
    of the node within its graph: the same at every call, on every device, and for a graph alone
    as in a batch, but tied to how the nodes are numbered.

    Args:
        place (Tensor): The number of each node within its graph :math:`(N)`.
        columns (int): Numbers a node :math:`K`.
        training (bool): Whether to draw.
        dtype (torch.dtype): A floating point type.

    Returns:
        The noise :math:`(N, K)`.
    """
    if training:
        return torch.rand(place.size(0), columns, dtype=dtype, device=place.device)
    column = torch.arange(columns, device=place.device)
    # a multiply-and-shift hash of 32 bits, carried in 64
    value = (place.unsqueeze(1) * 0x9E3779B1 + (column + 1) * 0x85EBCA6B) & _MASK
    for factor, shift in ((0x7FEB352D, 15), (0x046CA68B, 16)):
        value = ((value ^ (value >> shift)) * factor) & _MASK
    value = (value ^ (value >> 16)) >> 8
    return value.to(dtype) / 2**24
