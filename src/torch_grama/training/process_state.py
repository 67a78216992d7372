"""What a run changes in its process and puts back: signals, chatter of Lightning, randomness."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import cast

import numpy as np
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor

from torch_grama.training.loaders import mix_seed

HANDLED = (signal.SIGTERM, signal.SIGINT)
_Handler = Callable[[int, FrameType | None], object] | int | None


class SignalWatch:
    r"""Notes SIGTERM and Ctrl-C instead of dying from them, and hands them on to child processes if
    asked to; a second one acts as usual.

    Outside the main thread signals cannot be caught, and nothing is changed.
    """

    def __init__(self, forward: bool = False) -> None:
        self.received: int | None = None
        self._forward = forward
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> SignalWatch:
        self.take_over()
        return self

    def take_over(self) -> None:
        r"""Handles signals, also after others, such as Lightning, have put themselves before."""
        if threading.current_thread() is not threading.main_thread() or self.received is not None:
            return
        for number in HANDLED:
            if signal.getsignal(number) != signal.SIG_IGN:  # what is ignored stays so
                handler = signal.signal(number, self._note)
                self._before.setdefault(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        if self._forward:
            for child in multiprocessing.active_children():
                if child.pid is not None:
                    os.kill(child.pid, number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class TrainingInterruptedError(Exception):
    r"""Raised inside the loop to leave an epoch after its state was saved."""


# How messages begin that are of no use here.
_MESSAGES = (
    # the first line of a run names the device, and says where it goes on
    *("GPU available:", "TPU available:", "HPU available:"),
    *("Restoring states from the checkpoint", "Restored all states from the checkpoint"),
    # the configuration says so
    *("Using bfloat16 Automatic Mixed Precision", "Using 16bit Automatic Mixed Precision"),
    *("You are using a CUDA device", "`weights_only` was not set"),
    "`Trainer.fit` stopped:",  # the outcome says why
    "💡 Tip:",  # advertisement
    *("-----", "Initializing distributed:", "LOCAL_RANK:"),  # a table of processes
)
_WARNINGS = (
    r".*isinstance\(treespec, LeafSpec\).* is deprecated",  # Lightning's own call
    "mkldnn_matmul failed",  # said in words where training begins
)


class _Quiet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().lstrip().startswith(_MESSAGES)


_LOGGERS = (
    "pytorch_lightning.accelerators.cuda",
    "pytorch_lightning.utilities.rank_zero",
    "lightning_fabric.utilities.rank_zero",
    "lightning_fabric.utilities.distributed",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    r"""Filters the listed messages, each for its reason, and no other."""
    quiet = _Quiet()
    with warnings.catch_warnings():
        _install(quiet)
        try:
            yield
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeFilter(quiet)


class QuietDDPStrategy(DDPStrategy):
    r"""Lightning's strategy for several processes, with the same filter and rounding in each."""

    def setup_environment(self) -> None:
        _install(_Quiet())
        torch.set_flush_denormal(True)  # as flush_subnormals does; the process ends with the run
        super().setup_environment()


def _install(quiet: _Quiet) -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(quiet)
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=message)


def seed_all(*parts: int) -> None:
    r"""Seeds Python, NumPy and torch, on every device, from several numbers."""
    seed = mix_seed(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, object]:
    r"""Where all random numbers stand, in plain values and tensors."""
    _, keys, position, has_gauss, cached = cast(
        tuple[str, np.ndarray, int, int, float], np.random.get_state()
    )
    version, words, gauss = random.getstate()
    return {
        "python": [version, list(words), gauss],
        "numpy": [keys.tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: Mapping[str, object]) -> None:
    r"""Goes on with the random numbers of :func:`random_state`."""
    version, words, gauss = cast(tuple[int, list[int], float | None], state["python"])
    random.setstate((version, tuple(words), gauss))
    keys, position, has_gauss, cached = cast(tuple[list[int], int, int, float], state["numpy"])
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(cast(Tensor, state["torch"]))
    cuda = cast(list[Tensor], state["cuda"])
    if cuda and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(cuda[: torch.cuda.device_count()])


@contextmanager
def keep_random_state() -> Iterator[None]:
    r"""Whatever is seeded and drawn inside, the caller's random numbers go on where they were."""
    before = random_state()
    try:
        yield
    finally:
        restore_random_state(before)
