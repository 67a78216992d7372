"""The folder of one run: its files, who works in it, and whether it is finished."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

CONFIG, RESULT, FACTS = "config.yaml", "result.json", "data.json"
METRICS, ANALYSIS, COEFFICIENTS = "metrics.csv", "analysis.json", "coefficients.jsonl"
RACE, SEAL = "race.json", "data.sha"
FOLDS = "folds.json"  # which folds belong to a folder of runs
# The files that a report reads, and the largest sizes of them that are read, in bytes.
LIMITS = {
    CONFIG: 256_000,
    RESULT: 1_000_000,
    METRICS: 64_000_000,
    ANALYSIS: 16_000_000,
    COEFFICIENTS: 64_000_000,
    FACTS: 4_000_000,
}


class RunError(RuntimeError):
    r"""A run folder is missing, occupied, taken by another process, or not what it should be."""


class RunBusyError(RunError):
    r"""Another process works on the run, and may end soon."""


class RunFolder:
    r"""The folder of one run.

    It holds ``config.yaml`` (all settings, and where the run ran), ``data.json`` (what the model
    must know of the data), ``metrics.csv``, ``tensorboard/``, ``checkpoints/`` and, last of all,
    ``result.json``: a folder without it is an unfinished run.

    Args:
        path (str or Path): The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / CONFIG
        self.facts = self.path / FACTS
        self.result = self.path / RESULT
        self.metrics = self.path / METRICS
        self.race = self.path / RACE  # how the model was chosen, if a race chose it
        self.board = self.path / "tensorboard"
        # the state to resume from, and the weights of the best epoch
        self.last = self.path / "checkpoints" / "last.ckpt"
        self.best = self.path / "checkpoints" / "best.ckpt"

    @property
    def is_run(self) -> bool:
        r"""Whether a run was started here."""
        return self.config.is_file()

    @property
    def is_finished(self) -> bool:
        r"""Whether the run here is finished."""
        return self.is_run and self.result.is_file()

    @property
    def has_state(self) -> bool:
        r"""Whether there is something to go on from."""
        return any(self.last.parent.glob("*.ckpt"))

    @property
    def has_content(self) -> bool:
        r"""Whether there is a file, or more than a run leaves that died at its very start."""
        found = self.path.iterdir() if self.path.is_dir() else ()
        left = (".lock", FACTS, RACE, SEAL)
        return self.path.is_file() or any(
            one.name not in left and not is_leftover(one) for one in found
        )

    def describe_last(self) -> str:
        r"""The state to resume from, in words for a message."""
        return f"'{self.last}'" if self.last.exists() else "none, it had not been written yet"

    def make(self) -> None:
        r"""Makes the folder of a new run.

        Raises:
            RunError: There is something here already, or the folder cannot be made.
        """
        if self.is_finished:
            raise RunError(
                f"'{self.path}' holds a finished run: choose another folder with `--run`, or read "
                f"it with `grama info {self.path}`"
            )
        if self.is_run or (self.path / "race").is_dir():
            raise RunError(
                f"'{self.path}' holds an unfinished run: finish it with `grama train --resume "
                f"{self.path}`, or choose another folder with `--run`"
            )
        if (self.path / FOLDS).is_file():
            raise RunError(
                f"'{self.path}' holds runs of several folds: finish them with `grama train "
                f"--resume {self.path}`, or choose another folder with `--run`"
            )
        if self.has_content:
            raise RunError(
                f"'{self.path}' is not empty and holds no run: choose another folder with `--run`"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"'{self.path}' cannot be made ({error.strerror}): choose another folder with "
                f"`--run`"
            ) from error

    def check(self) -> None:
        r"""Makes sure that a run was started here.

        Raises:
            RunError: There is none; runs nearby are named.
        """
        if self.is_run:
            return
        if not self.path.exists():
            near = sorted(self.path.parent.glob(f"*/{CONFIG}"), key=os.path.getmtime)
            hint = f"; the newest run beside it is '{near[-1].parent}'" if near else ""
            raise RunError(f"There is no run '{self.path}'{hint}")
        if (self.path / "race").is_dir():
            raise RunError(
                f"'{self.path}' has not chosen its model yet: go on with `grama train --resume "
                f"{self.path}`"
            )
        inside = sorted(found.parent for found in self.path.glob(f"*/{CONFIG}"))
        hint = f"; the runs in it: {', '.join(map(str, inside[:5]))}" if inside else ""
        raise RunError(f"'{self.path}' holds no run (it has no '{CONFIG}'){hint}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        r"""Keeps other processes from working on the run as long as a ``with`` block runs.

        The lock of a process that died is free.

        Raises:
            RunError: Another process works on it, or something in it is a link, through which
                files elsewhere would be written.
        """
        links = [found for found in self.path.rglob("*") if found.is_symlink()]
        if links:
            raise RunError(
                f"'{links[0]}' is a link, and what a run writes stays in its folder: remove it, or "
                f"copy what it leads to"
            )
        from filelock import FileLock, Timeout

        place = self.path / ".lock"
        if place.exists() and not place.is_file():
            raise RunError(f"'{place}' is no plain file: remove it")
        try:
            with FileLock(place, timeout=0):
                with contextlib.suppress(OSError):  # some systems let nobody write what is locked
                    place.write_text(f"{os.getpid()}\n")
                for left in filter(is_leftover, self.path.rglob(".*")):
                    left.unlink(missing_ok=True)
                yield
        except Timeout as error:
            owner = place.read_text(errors="replace").strip()[:32] or "unknown"
            raise RunBusyError(
                f"'{self.path}' is being worked on by another process (number {owner}): wait for "
                f"it, or end it first"
            ) from error


def is_leftover(path: Path) -> bool:
    r"""Whether something is half of a file, whose writer was killed."""
    return path.name.startswith(".") and path.suffix == ".tmp" and path.is_file()


def propose_folder(data: str, model: str, parent: str | Path = "runs") -> Path:
    r"""Returns a folder for a new run that does not exist yet: time, data and model.

    Args:
        data (str): Name or path of the data set.
        model (str): Name of the model.
        parent (str or Path, optional): Where runs lie. (default: :obj:`"runs"`)
    """
    stem = Path(data).resolve().name if "/" in data or data in (".", "..") else Path(data).name
    words = [re.sub(r"[^\w.]+", "-", word).strip("-.") for word in (stem, model)]
    base = "-".join([time.strftime("%Y%m%d-%H%M%S"), *filter(None, words)])
    path, number = Path(parent) / base, 1
    while path.exists():
        number += 1
        path = Path(parent) / f"{base}-{number}"
    return path
