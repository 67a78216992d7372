"""Lets a run end in good order when it is asked to."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
