"""What a sweep found: sorted trials, ``sweep.csv``, ``best.yaml``; and what is told meanwhile."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from torch_grama.experiments.run import load_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.bars import Bars
from torch_grama.runs.safe_files import to_yaml
from torch_grama.runs.words import clip, format_count, format_metric, format_seconds
from torch_grama.search.trial import TrialOutcome, shorten

TRIALS = "trials"
TABLE = "sweep.csv"
BEST = "best.yaml"
SweepReport = Literal["auto", "rich", "plain", "quiet"]
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

    def __post_init__(self) -> None:
        def key(outcome: TrialOutcome) -> tuple[int, bool, float, str]:
            missing = math.isnan(outcome.value)  # NaN compares with nothing
            value = 0.0 if missing else outcome.value
            sign = -1 if self.higher_is_better else 1
            return _ORDER.index(outcome.state), missing, sign * value, outcome.name

        object.__setattr__(self, "outcomes", tuple(sorted(self.outcomes, key=key)))

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

    def rows(self) -> list[list[str]]:
        r"""Returns a table for a screen: a header, and a row per trial."""
        head = ["", *shorten(self.settings), f"val {self.metric}"]
        rows = [[*head, "epochs", "parameters", "time", "state"]]
        for rank, outcome in enumerate(self.outcomes, 1):
            facts = outcome.to_dict()
            value = "-" if facts["val"] is None else format_metric(outcome.value)
            spread = "" if outcome.deviation is None else f" ± {format_metric(outcome.deviation)}"
            state = f"failed ({facts['message']})" if facts["message"] else outcome.state
            rows.append(
                [
                    str(rank) if outcome.state == "finished" else "",
                    *(_text(outcome.point[n]) if n in outcome.point else "" for n in self.settings),
                    value + spread,
                    str(outcome.epochs),
                    "" if facts["parameters"] is None else f"{facts['parameters']:,}",
                    f"{outcome.seconds:.1f} s",
                    clip(state, 60),
                ]
            )
        return rows

    def write(self) -> None:
        r"""Writes ``sweep.csv`` and, once a trial is finished, ``best.yaml`` with the settings of
        the best one, ready for ``grama train --config``.
        """
        value = f"val/{self.metric}"
        last = ("deviation", "runs", "epochs", "parameters", "seconds", "message")
        stream = io.StringIO()
        names = ["rank", "trial", "state", *self.settings, value, *last]
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        for rank, outcome in enumerate(self.outcomes, 1):
            facts = outcome.to_dict()
            writer.writerow(
                {
                    "rank": rank if outcome.state == "finished" else "",
                    "trial": outcome.name,
                    "state": outcome.state,
                    **{name: _text(setting) for name, setting in outcome.point.items()},
                    value: facts["val"],
                    **{name: facts[name] for name in last if name in facts},
                    "deviation": facts["val_deviation"],
                    "seconds": f"{outcome.seconds:.3f}",
                }
            )
        write_atomically(self.folder / TABLE, stream.getvalue().encode())
        if self.best is None or self.best_run is None:
            return
        config = dataclasses.replace(load_config(self.best_run), test=True)
        about = (
            f"# The best of {format_count(len(self.outcomes), 'trial')}: validation {self.metric} "
            f"{self.best.value:.6g}, mean of {format_count(len(self.best.results), 'run')}.\n"
            f"# Train it with `grama train --config {BEST}`; other folds and seeds by "
            f"`--data.fold` and `--seed`.\n"
        )
        write_atomically(self.folder / BEST, (about + to_yaml(config.to_dict())).encode())


def _text(value: object) -> str:
    """The value of a setting in a cell of a table."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


class SweepReporter:
    r"""Is told how a sweep goes: prints a line for every trial that ends and, on a terminal, draws
    bars for the sweep and each trial; others change what they care for.
    """

    def __init__(self, report: SweepReport = "quiet", stream: TextIO | None = None) -> None:
        if report == "quiet":
            stream = io.StringIO()
        self._bars = Bars(stream, draw=report == "rich" if report in ("rich", "plain") else None)
        self._total = self._before = self._done = 0
        self._begun = 0.0

    def begin(self, total: int, done: int, text: str) -> None:
        r"""Called before the first trial: trials in all, trials of earlier sessions, a line."""
        self._total, self._before, self._done = total, done, done
        self._begun = time.monotonic()
        self.note(text)
        self._bars.__enter__()
        self._bars.show("trials", done, total, f"{done}/{total}")

    def running(self, name: str, fraction: float, value: float) -> None:
        r"""Called when a trial tells how far it is."""
        self._bars.show(name, fraction, 1.0, "" if math.isnan(value) else format_metric(value))

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        r"""Called when a trial ends; with the best value so far."""
        self._done += 1
        what = "no value" if math.isnan(outcome.value) else f"val {format_metric(outcome.value)}"
        if outcome.failure is not None:
            what = f"failed, {str(outcome.failure)[:200]}"
        elif outcome.state == "stopped":
            what += f"  stopped after epoch {outcome.epochs}"
        shown = "" if math.isnan(best) else f"best {format_metric(best)}"
        pace = (time.monotonic() - self._begun) / (self._done - self._before)
        left = f"{format_seconds(pace * max(self._total - self._done, 0))} left"
        count = f"{self._done}/{self._total}"
        self.note("  ".join(filter(None, [count, f"{outcome.name}: {what}", shown, left])))
        self._bars.remove(outcome.name)
        self._bars.show("trials", self._done, self._total, f"{count}  {shown}")

    def note(self, text: str) -> None:
        r"""Called with what the user should know."""
        self._bars.say(text)

    def end(self) -> None:
        r"""Called once, whatever happened."""
        self._bars.__exit__(None, None, None)
