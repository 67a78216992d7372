"""Progress bars for runs that go on in other processes, read from their run folders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from torch_grama.reproduce.reproduction import PlannedRun
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from rich.progress import TaskID

EPOCHS = "trainer.max_epochs"


class ProgressBoard:
    r"""One bar a model, moved by what its runs have written to their ``metrics.csv``.

    Nothing passes between the processes: any run whose folder can be read is followed, one that is
    resumed from its last epoch on. On anything but a terminal it prints nothing.

    Args:
        runs (sequence of PlannedRun): The runs to follow, finished ones among them.
        stream (TextIO): The terminal.
        name_model (callable, optional): What a row is called. (default: its own name)
        interval (float, optional): Seconds between two looks. (default: :obj:`0.5`)

    Example:
        >>> import io
        >>> with ProgressBoard([], io.StringIO()):
        ...     pass
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        stream: TextIO,
        name_model: Callable[[str], str] = str,
        interval: float = 0.5,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._interval = interval
        self._models = {run.model: [r for r in runs if r.model == run.model] for run in runs}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} epochs  {task.fields[state]}"),
            TimeElapsedColumn(),
            console=Console(file=stream),
            auto_refresh=False,
            disable=not stream.isatty(),
        )
        self._tasks: dict[str, TaskID] = {
            model: self._progress.add_task(
                name_model(model), total=sum(count_epochs(run) for run in own), state=""
            )
            for model, own in self._models.items()
        }
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> ProgressBoard:
        self._progress.start()
        self._watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watch.join()
        self._show()
        self._progress.stop()

    def _follow(self) -> None:
        while not self._over.wait(self._interval):
            self._show()

    def _show(self) -> None:
        for model, runs in self._models.items():
            finished = [run for run in runs if run.is_finished]
            done = sum(count_epochs(run) if run in finished else epochs_done(run) for run in runs)
            busy = [run.data for run in runs if run not in finished and epochs_done(run)]
            state = "done" if len(finished) == len(runs) else ", ".join(busy)
            self._progress.update(self._tasks[model], completed=done, state=state)
        self._progress.refresh()


def count_epochs(run: PlannedRun) -> int:
    r"""Returns how many epochs a run may have; 1 where its settings leave that open."""
    epochs = run.settings.get(EPOCHS)
    return epochs if isinstance(epochs, int) else 1


def epochs_done(run: PlannedRun) -> int:
    r"""Returns how many epochs a run has written down so far."""
    return len(read_metrics(RunFolder(run.folder).metrics))
