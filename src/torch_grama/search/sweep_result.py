"""What a sweep found: sorted trials, ``sweep.csv`` and ``best.yaml``."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_grama.experiments.run import load_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.safe_files import to_yaml
from torch_grama.runs.words import format_count
from torch_grama.search.trial import TrialOutcome

TRIALS = "trials"
TABLE = "sweep.csv"
BEST = "best.yaml"
_ORDER = ("finished", "stopped", "unfinished", "failed")


@dataclass(frozen=True)
class SweepResult:
    r"""What a sweep found.

    Attributes:
        folder: Where it lies.
        metric: Name of the metric, on validation.
        higher_is_better: The direction in which it improves.
        outcomes: All trials, the best first; those that did not come to their end last.
        first_run: Name of the first run of every trial.
    """

    folder: Path
    metric: str
    higher_is_better: bool
    outcomes: tuple[TrialOutcome, ...]
    first_run: str

    @property
    def best(self) -> TrialOutcome | None:
        r"""The best trial of those that are finished."""
        if self.outcomes and self.outcomes[0].state == "finished":
            return None if math.isnan(self.outcomes[0].value) else self.outcomes[0]
        return None

    @property
    def best_run(self) -> Path | None:
        r"""The folder of the first run of the best trial."""
        if self.best is None:
            return None
        return self.folder / TRIALS / self.best.name / self.first_run

    @property
    def settings(self) -> list[str]:
        r"""The dotted names of what was searched."""
        return list(dict.fromkeys(name for outcome in self.outcomes for name in outcome.point))

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return {
            "folder": str(self.folder),
            "metric": f"val/{self.metric}",
            "higher_is_better": self.higher_is_better,
            "best": None if self.best is None else self.best.name,
            "best_config": None if self.best is None else str(self.folder / BEST),
            "best_run": None if self.best_run is None else str(self.best_run),
            "trials": [outcome.to_dict() for outcome in self.outcomes],
        }


def sort_outcomes(
    outcomes: Sequence[TrialOutcome], higher_is_better: bool
) -> tuple[TrialOutcome, ...]:
    r"""Sorts trials: finished ones by their value, then stopped, unfinished and failed ones."""

    def key(outcome: TrialOutcome) -> tuple[int, bool, float, str]:
        missing = math.isnan(outcome.value)  # NaN compares with nothing
        value = 0.0 if missing else outcome.value
        sign = -1 if higher_is_better else 1
        return _ORDER.index(outcome.state), missing, sign * value, outcome.name

    return tuple(sorted(outcomes, key=key))


def write_table(result: SweepResult) -> None:
    r"""Writes ``sweep.csv``."""
    names = result.settings
    value = f"val/{result.metric}"
    last = ("deviation", "runs", "epochs", "parameters", "seconds", "message")
    stream = io.StringIO()
    writer = csv.DictWriter(
        stream, ["rank", "trial", "state", *names, value, *last], lineterminator="\n"
    )
    writer.writeheader()
    for rank, outcome in enumerate(result.outcomes, 1):
        facts = outcome.to_dict()
        writer.writerow(
            {
                "rank": rank if outcome.state == "finished" else "",
                "trial": outcome.name,
                "state": outcome.state,
                **{name: format_value(setting) for name, setting in outcome.point.items()},
                value: facts["val"],
                **{name: facts[name] for name in last if name in facts},
                "deviation": facts["val_deviation"],
                "seconds": f"{outcome.seconds:.3f}",
            }
        )
    write_atomically(result.folder / TABLE, stream.getvalue().encode())


def write_best(result: SweepResult) -> Path | None:
    r"""Writes ``best.yaml``, the settings of the best trial, ready for ``grama train --config``,
    and returns the file; :obj:`None` where no trial is finished.
    """
    if result.best is None or result.best_run is None:
        return None
    config = dataclasses.replace(load_config(result.best_run), test=True)
    best = result.best
    about = (
        f"# The best of {format_count(len(result.outcomes), 'trial')}: validation {result.metric} "
        f"{best.value:.6g}, mean of {format_count(len(best.results), 'run')}.\n"
        f"# Train it with `grama train --config {BEST}`; other folds and seeds by `--data.fold` "
        f"and `--seed`.\n"
    )
    path = result.folder / BEST
    write_atomically(path, (about + to_yaml(config.to_dict())).encode())
    return path


def format_value(value: object) -> str:
    r"""Writes the value of a setting in a cell of a table."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
