"""The runs of ``grama demo``, models that carry a value over several distances, and their bars."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from torch_grama.datasets.catalogue import find
from torch_grama.experiments.settings import read_file
from torch_grama.reproduce.reproduction import (
    PlannedRun,
    gather_references,
    look_at_column,
    plan_runs,
)
from torch_grama.reproduce.suite import read_suite
from torch_grama.runs.bars import Bars
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.run_folder import RunError, RunFolder

FOLDER = Path(__file__).parent / "demo"
LABELS = {
    "gcn": "GCN",
    "adgn-gcn": "A-DGN(GCN)",
    "gps-gcn": "GPS(GCN)",
    "grama-gcn": "GRAMA(GCN)",
}
"""Rows in the order of the table, and what they are called there."""


def plan_demo(
    root: Path, quick: bool = False, seed: int = 0, all_models: bool = False
) -> list[PlannedRun]:
    r"""Lists the runs of the demo, the farthest first, since they take longest; quick, a few epochs
    on the smaller distances.
    """
    suite = read_suite(FOLDER)
    models = suite.models if all_models else ()
    runs = plan_runs(suite, "smoke" if quick else "short", root, models, repeats=[seed])
    for run in runs:
        path = RunFolder(run.folder).config
        kept = read_file(path) if path.is_file() else run.settings
        if any(kept.get(name) != value for name, value in run.settings.items()):
            raise RunError(
                f"'{run.folder}' is a run of other settings: remove it, or name another folder "
                "with `--out`"
            )
    return sorted(runs, key=lambda run: -distance_of(run.data))


def distance_of(data: str) -> int:
    r"""Returns the hops between source and target of a transfer task.

    Example:
        >>> distance_of("transfer-line-8-carry")
        8
    """
    return int(find(data).arguments[1])


def demo_references(data: Sequence[str]) -> dict[str, dict[str, float]]:
    r"""Scores the predictors that look at no graph: name to error by data set."""
    suite = read_suite(FOLDER)
    return gather_references(
        {label: look_at_column(suite, suite.find_data(label), may_fetch=True) for label in data}
    )


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
