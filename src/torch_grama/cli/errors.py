"""Turns what can go wrong into one sentence and an exit status; never a traceback."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch_grama.runs.memory import is_out_of_memory

Run = Callable[[argparse.Namespace], int]

_EXTRAS = {
    "jsonargparse": "train",
    "pytorch_lightning": "train",
    "torchmetrics": "train",
    "tensorboard": "train",
    "yaml": "train",
    "safetensors": "train",
    "rich": "train",
    "ray": "sweep",
    "optuna": "sweep",
    "networkx": "data",
    "matplotlib": "data",
    "pandas": "tables",
    "pyarrow": "tables",
    "jinja2": "report",
    "rdkit": "molecules",
    "ogb": "molecules",
}
# By name: a command has loaded the rooms whose errors it can meet, and no others.
_STATUS = {
    "DatasetError": 2,
    "ConfigError": 2,
    "RunError": 2,
    "CheckpointError": 1,
    "NonFiniteLossError": 1,
    "TrainingProcessError": 1,
}
_USUAL: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_NOBODY_READS = 128 + 13
"""What a program exits with that SIGPIPE ended."""


def guarded(run: Run, *mistakes: type[Exception]) -> Run:
    r"""Wraps a command so that an error of the user or the machine becomes one sentence.

    The exit status is 2 for a mistake in the call, the settings or the data, 1 for a failure while
    running, 130 or 143 for a run that was asked to stop.
    """

    def wrapped(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except KeyboardInterrupt as stop:
            return say("interrupted", getattr(stop, "exit_code", 130))
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            return say(f"'{error.name}' is not installed: run `pip install 'torch-grama[{extra}]'`")
        except OSError as error:
            return _explain_system(error)
        except Exception as error:
            return _explain(error, mistakes)

    return wrapped


def say(text: object, status: int = 2) -> int:
    r"""Prints a sentence, with or without its full stop, to standard error, and returns the exit
    status.
    """
    # what came out of a file must not steer the terminal
    sentence = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text)).rstrip(".")
    print(f"grama: {sentence}{'' if sentence.endswith('?') else '.'}", file=sys.stderr)
    return status


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


def _explain(error: Exception, mistakes: tuple[type[Exception], ...]) -> int:
    """Says what happened; an error of our own making is raised."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if "RunInterrupted" in names:
        return say(error, int(getattr(error, "exit_code", 1)))
    for name in names:
        if name in _STATUS:
            return say(error, _STATUS[name])
    if is_out_of_memory(error):
        return say(
            "out of memory: lower trainer.batch_size, model.hidden_channels or model.seq_len, set "
            "model.recompute true, or take subgraphs with `--trainer.loader subgraphs`",
            1,
        )
    if isinstance(error, mistakes):
        return say(error)
    raise error


def _explain_system(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        print(flush=True)  # raises it again if it is standard output that nobody reads
    place = f"'{error.filename}'" if error.filename else "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return say(
            f"the disk is full (writing {place}): what was saved before is whole; make room and "
            f"resume the run",
            1,
        )
    return say(f"{place} cannot be used ({error.strerror or error})", 1)
