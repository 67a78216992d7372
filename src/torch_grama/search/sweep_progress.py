"""What the user sees while a sweep runs."""

from __future__ import annotations

import math
import sys
import time
from typing import Literal, TextIO

from torch_grama.runs.bars import Bars
from torch_grama.runs.words import format_metric, format_seconds
from torch_grama.search.trial import TrialOutcome

SweepReport = Literal["auto", "rich", "plain", "quiet"]


class SweepReporter:
    r"""Is told how a sweep goes, and says nothing; others change what they care for."""

    def begin(self, total: int, done: int, text: str) -> None:
        r"""Called before the first trial: trials in all, trials of earlier sessions, a line."""

    def running(self, name: str, fraction: float, value: float) -> None:
        r"""Called when a trial tells how far it is."""

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        r"""Called when a trial ends; with the best value so far."""

    def note(self, text: str) -> None:
        r"""Called with what the user should know."""

    def end(self) -> None:
        r"""Called once, whatever happened."""


class SweepProgress(SweepReporter):
    r"""A line for every trial that ends; on a terminal also bars, for the sweep and each trial."""

    def __init__(self, stream: TextIO, draw: bool | None = None) -> None:
        self._bars = Bars(stream, draw=draw)
        self._total = self._before = self._done = 0
        self._begun = 0.0

    def begin(self, total: int, done: int, text: str) -> None:
        self._total, self._before, self._done = total, done, done
        self._begun = time.monotonic()
        self.note(text)
        self._bars.__enter__()
        self._bars.show("trials", done, total, f"{done}/{total}")

    def running(self, name: str, fraction: float, value: float) -> None:
        self._bars.show(name, fraction, 1.0, "" if math.isnan(value) else format_metric(value))

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        self._done += 1
        shown = "" if math.isnan(best) else f"best {format_metric(best)}"
        pace = (time.monotonic() - self._begun) / (self._done - self._before)
        left = f"{format_seconds(pace * max(self._total - self._done, 0))} left"
        words = [f"{self._done}/{self._total}", _describe(outcome), shown, left]
        self.note("  ".join(filter(None, words)))
        self._bars.remove(outcome.name)
        self._bars.show("trials", self._done, self._total, f"{words[0]}  {shown}")

    def note(self, text: str) -> None:
        self._bars.say(text)

    def end(self) -> None:
        self._bars.__exit__(None, None, None)


def build_sweep_reporter(report: SweepReport | SweepReporter) -> SweepReporter:
    r"""Makes a reporter from a word; anything else is taken as one."""
    if not isinstance(report, str):
        return report
    if report == "quiet":
        return SweepReporter()
    return SweepProgress(sys.stderr, None if report == "auto" else report == "rich")


def _describe(outcome: TrialOutcome) -> str:
    if outcome.failure is not None:
        return f"{outcome.name}: failed, {str(outcome.failure)[:200]}"
    value = "no value" if math.isnan(outcome.value) else f"val {format_metric(outcome.value)}"
    how = f"  stopped after epoch {outcome.epochs}" if outcome.state == "stopped" else ""
    return f"{outcome.name}: {value}{how}"
