"""Hand-written autograd functions: when they may be used, and how they are called."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function


def apply(function: type[Function], *arguments: object) -> Any:
    r"""Calls an autograd function; the caller states the type of the result."""
    return function.apply(*arguments)


def handwritten_gradients_work() -> bool:
    r"""Whether hand-written autograd functions may be used: not while the model is compiled or
    exported, nor under function transforms or forward-mode differentiation.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )
