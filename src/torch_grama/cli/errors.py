"""Turns what can go wrong into one sentence and an exit status; never a traceback."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable

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
    "jinja2": "report",
    "plotly": "report",
    "rdkit": "molecules",
    "ogb": "molecules",
}


def guarded(run: Run) -> Run:
    r"""Wraps a command so that an error of the user or the machine becomes one sentence.

    The exit status is 2 for a mistake in the call, the settings or the data, 1 for a failure
    while running, 130 or 143 for a run that was asked to stop.

    Args:
        run (callable): The command.
    """

    def wrapped(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except KeyboardInterrupt:
            _say("interrupted")
            return 130
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            _say(f"'{error.name}' is not installed: run `pip install 'torch-grama[{extra}]'`")
            return 2
        except Exception as error:
            status = _explain(error)
            if status is None:
                raise
            return status

    return wrapped


def _explain(error: Exception) -> int | None:
    """Says what happened and returns the exit status; nothing for an error of our own making."""
    from torch_grama.datasets.errors import DatasetError

    if isinstance(error, DatasetError):
        _say(str(error))
        return 2
    if isinstance(error, OSError):
        return _explain_system(error)
    # only commands that train raise what follows, and they have loaded it
    names = {kind.__name__ for kind in type(error).__mro__}
    if "RunInterrupted" in names:
        _say(str(error))
        return int(getattr(error, "exit_code", 1))
    if names & {"ConfigError", "RunError"}:
        _say(str(error))
        return 2
    if names & {"CheckpointError", "NonFiniteLossError"}:
        _say(str(error))
        return 1
    if "OutOfMemoryError" in names or isinstance(error, MemoryError):
        _say(
            "out of memory: lower trainer.batch_size, model.hidden_channels or model.seq_len, set "
            "model.recompute true, or take subgraphs with `--trainer.loader subgraphs`"
        )
        return 1
    return None


def _explain_system(error: OSError) -> int:
    place = f"'{error.filename}'" if error.filename else "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        _say(
            f"the disk is full (writing {place}): what was saved before is whole; make room and "
            f"resume the run"
        )
    else:
        _say(f"{place} cannot be used ({error.strerror or error})")
    return 1


def _say(text: str) -> None:
    print(f"grama: {text.rstrip('.')}.", file=sys.stderr)
