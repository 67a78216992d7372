"""The ``grama`` command in a process of its own, forked from one that has loaded what it needs."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from torch_grama.reproduce.worker_processes import prepare_workers


class GramaProcess:
    """A command that runs, with one thread; ``before`` is called first in its process."""

    def __init__(self, *words: str, before: Callable[[], None] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("out", "err")]
        names = [str(path) for path in self._files]
        self._process = prepare_workers().Process(target=_run, args=([*words], names, before))
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


def _run(words: list[str], files: list[str], before: Callable[[], None] | None) -> None:
    for stream, name in zip((sys.stdout, sys.stderr), files, strict=True):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    if before is not None:
        before()
    import torch

    from torch_grama.cli import main

    torch.set_num_threads(1)
    sys.exit(main(words))
