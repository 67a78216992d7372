"""How a process of the ``grama`` command ends when it is asked to, and when nobody reads it.

Loaded before everything else, so it loads next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_USUAL: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_NOBODY_READS = 128 + 13
"""What a program exits with that SIGPIPE ended."""


@contextmanager
def quiet_pipe() -> Iterator[None]:
    r"""Ends the process quietly when nobody reads its output any more, as in ``grama data list |
    head``.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # what is left in the buffer is written as the process ends, to where it is not missed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_NOBODY_READS)


@contextmanager
def prompt_end() -> Iterator[None]:
    r"""Ends the process at once, with one sentence, when it gets SIGTERM or Ctrl-C.

    Nothing is raised, which libraries that are being loaded would not survive; whatever was
    written is whole. What must end in another way, such as a training run, handles signals itself
    as long as it runs.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number, usual in _USUAL.items():
            if signal.getsignal(number) is usual:  # what others handle or ignore stays so
                before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Terminated(KeyboardInterrupt):
    r"""SIGTERM came, and is obeyed as Ctrl-C is."""

    exit_code = 128 + signal.SIGTERM


def raise_interrupts() -> None:
    r"""Lets Ctrl-C raise :class:`KeyboardInterrupt` from here on, and SIGTERM :class:`Terminated`,
    for a command that has processes of its own to end.
    """
    handlers: dict[int, Any] = {**_USUAL, signal.SIGTERM: _terminate}
    for number, handler in handlers.items():
        if signal.getsignal(number) is _end:
            signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _end(number: int, frame: FrameType | None) -> None:
    show_cursor = b"\x1b[?25h" if os.isatty(2) else b""
    os.write(2, show_cursor + b"grama: interrupted.\n")
    os._exit(128 + number)
