"""The runs of ``grama demo``: models that carry a value over several distances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_grama.datasets.graph_transfer import parse_name
from torch_grama.experiments.settings import read_file
from torch_grama.reproduce.columns import gather_references, look_at_column
from torch_grama.reproduce.reproduction import PlannedRun, plan_runs
from torch_grama.reproduce.suite import read_suite
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
    return parse_name(data)[1]


def demo_references(data: Sequence[str]) -> dict[str, dict[str, float]]:
    r"""Scores the predictors that look at no graph: name to error by data set."""
    suite = read_suite(FOLDER)
    return gather_references(
        {label: look_at_column(suite, suite.find_data(label), may_fetch=True) for label in data}
    )
