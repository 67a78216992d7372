"""Processes for runs, forked from one that has loaded what they need."""

from __future__ import annotations

from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path

# What a run needs; to load it takes seconds.
_LOADED = ["torch_grama.reproduce.reproduction"]
# Where a driver of NVIDIA is; a process that has looked at CUDA, as libraries do when they are
# loaded, cannot be forked into one that uses it.
_CUDA = Path("/dev/nvidiactl")


def prepare_workers() -> BaseContext:
    r"""Returns how processes are started, and begins at once to load what they need, beside this
    process: once, where the system can fork and has no GPU, and in each of them elsewhere.
    """
    if "forkserver" not in get_all_start_methods() or _CUDA.exists():
        return get_context("spawn")
    from multiprocessing import forkserver

    context = get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    forkserver.ensure_running()
    return context
