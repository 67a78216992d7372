"""Recomputing a block in the backward pass instead of keeping its intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint


def run_again_for_gradients(
    module: Module, run: Callable[..., Any], *arguments: Tensor | None
) -> Any:
    r"""Runs a function of a module, and runs it again when its gradient is wanted.

    The second run leaves the running statistics of batch norms alone: the batch has been counted.

    Args:
        module (Module): The module whose buffers the function may change.
        run (callable): The function.
        *arguments (Tensor, optional): Its arguments.
    """
    if torch.compiler.is_compiling():
        return checkpoint(run, *arguments, use_reentrant=False)
    return checkpoint(
        run,
        *arguments,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), _buffers_kept(module)),
    )


@contextmanager
def _buffers_kept(module: Module) -> Iterator[None]:
    # .data: autograd may have saved a buffer, and need not hear of a change that is undone
    kept = [(buffer, buffer.data.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.data.copy_(value)
