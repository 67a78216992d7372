"""How many threads a run computes with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Numbers in the output of a layer up to which a second thread wins next to nothing, and loses much
# where the cores have other work.
_SMALL = 1 << 17
_AT_START = torch.get_num_threads()


@contextmanager
def threads_for(num_nodes: int, channels: int) -> Iterator[None]:
    r"""Computes with one thread where layers are small, unless ``OMP_NUM_THREADS`` or
    ``torch.set_num_threads`` has said how many; afterwards with as many as before.

    Args:
        num_nodes (int): Nodes of a batch.
        channels (int): Width of the layers.
    """
    before = torch.get_num_threads()
    is_free = before == _AT_START and "OMP_NUM_THREADS" not in os.environ
    if is_free and num_nodes * channels <= _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
