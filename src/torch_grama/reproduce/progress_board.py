"""Progress bars for runs that go on in other processes, read from their run folders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from torch_grama.reproduce.reproduction import PlannedRun
from torch_grama.runs.bars import Bars
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.run_folder import RunFolder


@contextmanager
def progress_board(
    runs: Sequence[PlannedRun],
    stream: TextIO,
    name_model: Callable[[str], str] = str,
    interval: float = 0.5,
) -> Iterator[None]:
    r"""Shows one bar per model, moved by what its runs have written to their ``metrics.csv``.

    Nothing passes between the processes: any run whose folder can be read is followed, one that is
    resumed from its last epoch on. On anything but a terminal it prints nothing.
    """
    models = {run.model: [r for r in runs if r.model == run.model] for run in runs}
    over = threading.Event()
    with Bars(stream, "epochs", transient=False) as bars:

        def show() -> None:
            for model, own in models.items():
                done, total = sum(map(epochs_done, own)), sum(map(count_epochs, own))
                busy = [run.data for run in own if not run.is_finished and epochs_done(run)]
                state = "done" if all(run.is_finished for run in own) else ", ".join(busy)
                bars.show(name_model(model), done, total, state)

        def follow() -> None:
            while not over.wait(interval):
                show()

        if not bars.are_drawn:
            yield
            return
        watch = threading.Thread(target=follow, daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()
            show()


def count_epochs(run: PlannedRun) -> int:
    r"""Returns how many epochs a run may have; 1 where its settings leave that open."""
    epochs = run.settings.get("trainer.max_epochs")
    return epochs if isinstance(epochs, int) else 1


def epochs_done(run: PlannedRun) -> int:
    r"""Returns how many epochs a run has written down so far; all of them if it is finished."""
    if run.is_finished:
        return count_epochs(run)
    return len(read_metrics(RunFolder(run.folder).metrics))
