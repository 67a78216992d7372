"""Progress bars on a terminal, and lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    r"""Named progress bars on a terminal; elsewhere, and without rich, only what is said.

    Args:
        stream (TextIO, optional): Where they are drawn. (default: standard error)
        unit (str, optional): What is counted; without, a bar has no numbers. (default: none)
        draw (bool, optional): Whether there are bars. (default: whether it is a terminal)
        transient (bool, optional): Whether they vanish at the end. (default: :obj:`True`)

    Example:
        >>> import io
        >>> with Bars(io.StringIO()) as bars:
        ...     bars.show("reading", 1, 2)
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        unit: str = "",
        draw: bool | None = None,
        transient: bool = True,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._tasks: dict[str, TaskID] = {}
        self._progress: Progress | None = None
        if not (self._stream.isatty() if draw is None else draw):
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            return
        count = "{task.completed:.0f}/{task.total:.0f} " + unit if unit else ""
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn(count + "  {task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=self._stream),
            transient=transient,
        )

    @property
    def are_drawn(self) -> bool:
        return self._progress is not None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, name: str, done: float, total: float | None, text: str = "") -> None:
        r"""Moves the bar of that name, which appears if there is none."""
        if self._progress is None:
            return
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, text=text)
        self._progress.update(self._tasks[name], completed=done, total=total, text=text)

    def remove(self, name: str) -> None:
        r"""Takes the bar of that name away, if there is one."""
        if self._progress is not None and name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))

    def say(self, line: str) -> None:
        r"""Prints a line, above the bars."""
        if self._progress is None:
            print(line, file=self._stream, flush=True)
        else:
            self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
