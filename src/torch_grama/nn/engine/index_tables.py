"""Small constant index tensors, made once for each size and device."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor


def index_table(build: Callable[..., list[int]], device: torch.device, *sizes: int) -> Tensor:
    r"""Returns the indices that :obj:`build` lists for the given sizes, as a tensor.

    Kept between calls, so that a forward pass copies nothing to the device; a compiler sees a
    plain constant.
    """
    if torch.compiler.is_compiling():
        return torch.tensor(build(*sizes), device=device)
    return _kept(build, device, *sizes)


@lru_cache(maxsize=256)
def _kept(build: Callable[..., list[int]], device: torch.device, *sizes: int) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(build(*sizes), device=device)
