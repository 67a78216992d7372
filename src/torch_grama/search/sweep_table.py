"""What a sweep found: sorted rows, ``sweep.csv`` and ``best.yaml``."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from torch_grama.experiments.run import format_config, load_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.search.trial import TrialOutcome

TRIALS = "trials"
TABLE = "sweep.csv"
BEST = "best.yaml"
_COLUMNS = ("deviation", "runs", "epochs", "parameters", "seconds", "message")
_ORDER = {"finished": 0, "stopped": 1, "unfinished": 2, "failed": 3}


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

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return {
            "folder": str(self.folder),
            "metric": f"val/{self.metric}",
            "higher_is_better": self.higher_is_better,
            "best": None if self.best is None else self.best.name,
            "best_config": None if self.best is None else str(self.folder / BEST),
            "best_run": None if self.best_run is None else str(self.best_run),
            "trials": [
                {
                    "name": outcome.name,
                    "state": outcome.state,
                    "settings": dict(outcome.point),
                    "val": None if math.isnan(outcome.value) else outcome.value,
                    "val_deviation": outcome.deviation,
                    "runs": len(outcome.results),
                    "epochs": outcome.epochs,
                    "parameters": _parameters(outcome),
                    "seconds": outcome.seconds,
                    "message": "" if outcome.failure is None else str(outcome.failure),
                }
                for outcome in self.outcomes
            ],
        }


def sort_outcomes(
    outcomes: Sequence[TrialOutcome], higher_is_better: bool
) -> tuple[TrialOutcome, ...]:
    r"""Sorts trials: finished ones by their value, then stopped, unfinished and failed ones.

    Args:
        outcomes (sequence of TrialOutcome): The trials.
        higher_is_better (bool): The direction in which the metric improves.
    """

    def key(outcome: TrialOutcome) -> tuple[int, bool, float, str]:
        value = -outcome.value if higher_is_better else outcome.value
        return _ORDER[outcome.state], math.isnan(value), value, outcome.name

    # NaN compares with nothing
    return tuple(
        sorted(outcomes, key=lambda o: (*key(o)[:2], 0.0 if key(o)[1] else key(o)[2], o.name))
    )


def write_table(result: SweepResult) -> None:
    r"""Writes ``sweep.csv``.

    Args:
        result (SweepResult): What was found.
    """
    names = _names(result.outcomes)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["rank", "trial", "state", *names, f"val/{result.metric}", *_COLUMNS])
    for rank, outcome in enumerate(result.outcomes, 1):
        settings = [_plain(outcome.point[name]) if name in outcome.point else "" for name in names]
        writer.writerow(
            [
                rank if outcome.state == "finished" else "",
                outcome.name,
                outcome.state,
                *settings,
                "" if math.isnan(outcome.value) else repr(outcome.value),
                "" if outcome.deviation is None else repr(outcome.deviation),
                len(outcome.results),
                outcome.epochs,
                _parameters(outcome) or "",
                f"{outcome.seconds:.3f}",
                "" if outcome.failure is None else str(outcome.failure),
            ]
        )
    write_atomically(result.folder / TABLE, stream.getvalue().encode())


def write_best(result: SweepResult) -> Path | None:
    r"""Writes ``best.yaml``, the settings of the best trial, ready for ``grama train --config``.

    Args:
        result (SweepResult): What was found.

    Returns:
        The file; :obj:`None` where no trial is finished.
    """
    if result.best is None or result.best_run is None:
        return None
    config = dataclasses.replace(load_config(result.best_run), test=True)
    best = result.best
    about = (
        f"# The best of {len(result.outcomes)} trials: validation {result.metric} "
        f"{best.value:.6g}, mean of {len(best.results)} run{'s'[: len(best.results) > 1]}.\n"
        f"# Train it with `grama train --config {BEST}`; other folds and seeds by `--data.fold` "
        f"and `--seed`.\n"
    )
    path = result.folder / BEST
    write_atomically(path, (about + format_config(config)).encode())
    return path


def print_table(result: SweepResult, stream: TextIO, most: int = 20) -> None:
    r"""Prints the first rows: with rich on a terminal, otherwise as plain columns.

    Args:
        result (SweepResult): What was found.
        stream (TextIO): Where to.
        most (int, optional): Most rows. (default: :obj:`20`)
    """
    header, rows = format_rows(result)
    left_out = len(rows) - most
    if stream.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, header_style="bold", box=None)
        for number, row in enumerate(rows[:most]):
            table.add_row(*map(Text, row), style="green" if number == 0 and result.best else None)
        Console(file=stream).print(table)
    else:
        shown = [header, *rows[:most]]
        widths = [max(len(row[column]) for row in shown) for column in range(len(header))]
        for row in shown:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(line.rstrip(), file=stream)
    if left_out > 0:
        print(f"and {left_out} more in {result.folder / TABLE}", file=stream)


def format_rows(result: SweepResult) -> tuple[list[str], list[list[str]]]:
    r"""Returns the header and the rows of the table on the screen.

    Args:
        result (SweepResult): What was found.
    """
    names = _names(result.outcomes)
    last = [name.rpartition(".")[2] for name in names]
    short = [
        word if last.count(word) == 1 else name for word, name in zip(last, names, strict=True)
    ]
    header = ["", *short, f"val {result.metric}", "epochs", "parameters", "time", "state"]
    rows = []
    for rank, outcome in enumerate(result.outcomes, 1):
        value = "-" if math.isnan(outcome.value) else f"{outcome.value:.4f}"
        if outcome.deviation is not None:
            value += f" ± {outcome.deviation:.4f}"
        parameters = _parameters(outcome)
        state = outcome.state if outcome.failure is None else f"failed ({outcome.failure})"
        rows.append(
            [
                str(rank) if outcome.state == "finished" else "",
                *(_plain(outcome.point[name]) if name in outcome.point else "" for name in names),
                value,
                str(outcome.epochs),
                "" if parameters is None else f"{parameters:,}",
                f"{outcome.seconds:.1f} s",
                state if len(state) <= 60 else f"{state[:59]}…",
            ]
        )
    return header, rows


def _names(outcomes: Sequence[TrialOutcome]) -> list[str]:
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.point))


def _parameters(outcome: TrialOutcome) -> int | None:
    return next((result.parameters for result in outcome.results.values()), None)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
