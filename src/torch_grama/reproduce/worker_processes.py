"""Processes for runs, forked from one that has loaded what they need."""

from __future__ import annotations

from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext

# What a run needs; to load it takes seconds.
_LOADED = ["torch_grama.reproduce.run_many"]


def prepare_workers() -> BaseContext:
    r"""Returns how processes are started, and begins at once to load what they need, beside this
    process: once, where the system can fork, and in each of them elsewhere.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    from multiprocessing import forkserver

    context = get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    forkserver.ensure_running()
    return context
