"""Turns what can go wrong into one sentence and an exit status; never a traceback."""

from __future__ import annotations

import argparse
import errno
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import torch_grama
from torch_grama.runs.memory import is_out_of_memory

Run = Callable[[argparse.Namespace], int]

_EXTRAS = {
    "train": (
        *("jsonargparse", "pytorch_lightning", "torchmetrics", "tensorboard", "yaml"),
        *("safetensors", "rich"),
    ),
    "sweep": ("ray", "optuna"),
    "data": ("networkx", "matplotlib"),
    "tables": ("pandas", "pyarrow"),
    "report": ("jinja2",),
    "molecules": ("rdkit", "ogb"),
}
_PACKAGE = Path(torch_grama.__file__).parent
# By name: a command has loaded the rooms whose errors it can meet, and no others.
_STATUS = {
    **dict.fromkeys(("DatasetError", "ConfigError", "RunError"), 2),
    **dict.fromkeys(("CheckpointError", "NonFiniteLossError", "TrainingProcessError"), 1),
}


def guarded(run: Run, *mistakes: type[Exception]) -> Run:
    r"""Wraps a command so that an error of the user or the machine becomes one sentence.

    The exit status is 2 for a mistake in the call, the settings or the data, 1 for a failure while
    running, 130 or 143 for a run that was asked to stop.
    """

    def wrapped(arguments: argparse.Namespace) -> int:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _tell
                return run(arguments)
        except KeyboardInterrupt as stop:
            return say("interrupted", getattr(stop, "exit_code", 130))
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            extra = next((word for word, names in _EXTRAS.items() if library in names), None)
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


_show = warnings.showwarning


def _tell(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Says what this package warns of; a warning of others is shown as ever."""
    if Path(filename).is_relative_to(_PACKAGE):
        say(f"warning: {message}")
    else:
        _show(message, category, filename, lineno, file, line)


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
