"""Processes that tests start and end: forked from one that has loaded what they need."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from torch_grama.reproduce.worker_processes import prepare_workers


class ForkedProcess:
    """A function at work in a process of its own, with one thread, until it returns."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("out", "err")]
        names = [str(path) for path in self._files]
        self._process = prepare_workers().Process(
            target=_run, args=(names, dict(os.environ), function, *arguments)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None as long as it runs; a signal that ended it, as a number below zero."""
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def read(self) -> tuple[str, str]:
        """What it has printed, and what it has told, until now."""
        out, err = (path.read_text() if path.exists() else "" for path in self._files)
        return out, err

    def communicate(self, timeout: float = 1200.0) -> tuple[str, str]:
        """Waits for its end and returns what it printed and what it told."""
        self._process.join(timeout)
        assert self.returncode is not None, "it did not end"
        return self.read()

    def wait_until(self, condition: Callable[[], object], seconds: float = 1200.0) -> None:
        """Waits for something that the process does; one that ends before has failed."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited too long"
            assert self.returncode is None, self.read()[1]
            time.sleep(0.02)


class GramaProcess(ForkedProcess):
    """A command; ``before`` is called first in its process."""

    def __init__(self, *words: str, before: Callable[[], None] | None = None) -> None:
        super().__init__(_call_main, list(words), before)


def _run(
    files: list[str],
    environment: Mapping[str, str],
    function: Callable[..., object],
    *arguments: object,
) -> None:
    for stream, name in zip((sys.stdout, sys.stderr), files, strict=True):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    # that of the process it is forked from may be another
    os.environ.clear()
    os.environ.update(environment)
    import torch

    torch.set_num_threads(1)
    try:
        sys.exit(function(*arguments))
    finally:
        # as at the end of any program, pools end before their processes are waited for
        threading._shutdown()


def _call_main(words: list[str], before: Callable[[], None] | None) -> int:
    from torch_grama.cli import main

    if before is not None:
        before()
    return main(words)
