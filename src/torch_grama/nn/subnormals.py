"""The smallest numbers, with which CPUs are slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flush_subnormals() -> Iterator[None]:
    r"""Numbers below 1e-38 are zero inside. Products with them take ten times as long on a CPU, and
    a deep model has gradients of that size, an optimiser squares of small ones. It holds for this
    thread and those that torch starts meanwhile.
    """
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    r"""Whether such numbers are zero in this thread now."""
    return (torch.tensor(torch.finfo(torch.float32).tiny) / 2).item() == 0
