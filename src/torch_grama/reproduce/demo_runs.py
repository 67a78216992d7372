"""The runs of ``grama demo``: models that carry a value over several distances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_grama.datasets.graph_transfer import parse_name
from torch_grama.datasets.load import load_with
from torch_grama.datasets.storage import Storage
from torch_grama.experiments.settings import read_file
from torch_grama.experiments.trivial_references import trivial_references
from torch_grama.reproduce.reproduction import PlannedRun, plan_runs
from torch_grama.reproduce.suite import Suite, read_suite
from torch_grama.runs.run_folder import RunError, RunFolder

FOLDER = Path(__file__).parent / "demo"
BUDGETS = {False: "short", True: "smoke"}
"""Whether the demo is quick, and the budget of its suite."""
LABELS = {
    "gcn": "GCN",
    "adgn-gcn": "A-DGN(GCN)",
    "gps-gcn": "GPS(GCN)",
    "grama-gcn": "GRAMA(GCN)",
}
"""Rows in the order of the table, and what they are called there."""


def read_demo() -> Suite:
    r"""Reads the experiment that the demo is."""
    return read_suite(FOLDER)


def plan_demo(
    suite: Suite, root: Path, quick: bool = False, seed: int = 0, all_models: bool = False
) -> list[PlannedRun]:
    r"""Lists the runs of the demo, the farthest first, since they take longest.

    Args:
        suite (Suite): What :func:`read_demo` returns.
        root (Path): Where the run folders lie.
        quick (bool, optional): A few epochs on the smaller distances, to see that all works.
            (default: :obj:`False`)
        seed (int, optional): The seed of all runs. (default: :obj:`0`)
        all_models (bool, optional): All of the suite, not GRAMA and its backbone alone.
            (default: :obj:`False`)
    """
    models = suite.models if all_models else ()
    runs = plan_runs(suite, BUDGETS[quick], root, models, repeats=[seed])
    return sorted(runs, key=lambda run: -distance_of(run.data))


def refuse_other_settings(runs: Sequence[PlannedRun]) -> None:
    r"""Makes sure that runs which are there already are those of this demo.

    Args:
        runs (sequence of PlannedRun): What :func:`plan_demo` returns.

    Raises:
        RunError: If one was begun with other settings, such as those of an earlier version.
    """
    for run in runs:
        path = RunFolder(run.folder).config
        kept = read_file(path) if path.is_file() else run.settings
        if any(kept.get(name) != value for name, value in run.settings.items()):
            raise RunError(
                f"'{run.folder}' is a run of other settings: remove it, or name another folder "
                "with `--out`"
            )


def distance_of(data: str) -> int:
    r"""Returns the hops between source and target of a transfer task.

    Example:
        >>> distance_of("transfer-line-8-carry")
        8
    """
    return parse_name(data)[1]


def demo_references(suite: Suite, data: Sequence[str]) -> dict[str, dict[str, float]]:
    r"""Scores the predictors that look at no graph: name to error by data set.

    Args:
        suite (Suite): What :func:`read_demo` returns.
        data (sequence of str): The data sets.
    """
    scores: dict[str, dict[str, float]] = {}
    for label in data:
        entry = suite.find_data(label)
        task = load_with(entry.name, Storage(), entry.options)
        for name, score in trivial_references(task).items():
            scores.setdefault(name, {})[label] = score
    return scores
