"""What the user sees while data is fetched and prepared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class LoadingProgress:
    r"""A rich progress bar on a terminal; elsewhere one line for each thing that is done.

    Args:
        silent (bool, optional): Show nothing. (default: :obj:`False`)
    """

    def __init__(self, silent: bool = False) -> None:
        self._silent = silent
        self._started: dict[str, TaskID | None] = {}
        self._bars: Progress | None = None
        if sys.stderr.isatty() and not silent:
            try:
                from rich.console import Console
                from rich.progress import Progress
            except ImportError:
                return
            self._bars = Progress(console=Console(stderr=True), transient=True)

    def __enter__(self) -> LoadingProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        r"""Takes the bars away."""
        if self._bars is not None:
            self._bars.stop()

    def report(self, what: str, done: int, total: int | None) -> None:
        r"""Takes what :class:`~torch_grama.datasets.storage.Storage` reports."""
        if self._silent:
            return
        if what not in self._started:
            bars = self._bars
            self._started[what] = None if bars is None else bars.add_task(what, total=total)
            if bars is None:
                print(f"{what} ...", file=sys.stderr, flush=True)
        task = self._started[what]
        if self._bars is not None and task is not None:
            self._bars.update(task, completed=done, total=total)
