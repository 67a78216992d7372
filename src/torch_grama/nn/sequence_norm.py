"""Normalisation between blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm, Module

from torch_grama.nn.choices import choose

NormLike = str | Callable[[int], Module] | None

NORMS: dict[str, Callable[[int], Module]] = {
    "batch_norm": BatchNorm1d,
    "layer_norm": LayerNorm,
}


def build_norm(norm: NormLike, channels: int) -> Module | None:
    r"""Makes a normalisation from a word, a callable channels -> module, or :obj:`None`."""
    if norm is None:
        return None
    if isinstance(norm, str):
        return choose("norm", norm, NORMS)(channels)
    if not callable(norm):
        raise TypeError(
            f"Expected 'norm' to be a word, a callable channels -> module or None "
            f"(got {type(norm).__name__})"
        )
    module = norm(channels)
    if not isinstance(module, Module):
        raise TypeError(f"Expected 'norm' to make a torch.nn.Module (got {type(module).__name__})")
    return module


def normalize_sequence(norm: Module, sequence: Tensor) -> Tensor:
    r"""Applies a normalisation of rows :math:`(*, F)` to a sequence :math:`(L, N, F)`.

    A batch norm of fewer than two rows, which has no variance, uses its running statistics.
    """
    rows = sequence.flatten(0, -2)
    if isinstance(norm, BatchNorm1d) and rows.size(0) < 2 and norm.track_running_stats:
        mean, variance = norm.running_mean, norm.running_var
        out = F.batch_norm(rows, mean, variance, norm.weight, norm.bias, eps=norm.eps)
        return out.view_as(sequence)
    normalized: Tensor = norm(rows)
    return normalized.view_as(sequence)
