"""What the user sees while a sweep runs."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from torch_grama.search.trial import TrialOutcome
from torch_grama.training.progress import format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SweepReport = Literal["auto", "rich", "plain", "quiet"]


class SweepReporter(Protocol):
    r"""Is told how a sweep goes."""

    def begin(self, total: int, done: int, text: str) -> None:
        r"""Called before the first trial: trials in all, trials of earlier sessions, a line."""
        ...

    def running(self, name: str, fraction: float, value: float) -> None:
        r"""Called when a trial tells how far it is."""
        ...

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        r"""Called when a trial ends; with the best value so far."""
        ...

    def note(self, text: str) -> None:
        r"""Called with what the user should know."""
        ...

    def end(self) -> None:
        r"""Called once, whatever happened."""
        ...


class QuietSweep:
    r"""Says nothing."""

    def begin(self, total: int, done: int, text: str) -> None:
        pass

    def running(self, name: str, fraction: float, value: float) -> None:
        pass

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


class PlainSweep(QuietSweep):
    r"""A line for every trial that ends.

    Args:
        stream (TextIO): Where lines go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0
        self._done = 0
        self._begun = 0.0
        self._here = 0

    def begin(self, total: int, done: int, text: str) -> None:
        self._total, self._done, self._begun = total, done, time.monotonic()
        self.note(text)

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        self._done += 1
        self._here += 1
        self.note(f"{self._done}/{self._total}  {_describe(outcome, best)}  {self._left()}")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def _left(self) -> str:
        pace = (time.monotonic() - self._begun) / self._here
        return f"{format_seconds(pace * max(self._total - self._done, 0))} left"


class RichSweep(QuietSweep):
    r"""A bar for the sweep and one for every running trial.

    Args:
        stream (TextIO): The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress: Progress | None = None
        self._all: TaskID | None = None
        self._bars: dict[str, TaskID] = {}

    def begin(self, total: int, done: int, text: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        print(text, file=self._stream, flush=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        self._all = self._progress.add_task("trials", total=total, completed=done)
        self._progress.start()

    def running(self, name: str, fraction: float, value: float) -> None:
        if self._progress is None:
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=100)
        text = name if math.isnan(value) else f"{name}  {value:.4f}"
        self._progress.update(self._bars[name], completed=round(100 * fraction), description=text)

    def settled(self, outcome: TrialOutcome, best: float) -> None:
        if self._progress is None or self._all is None:
            return
        if outcome.name in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.name))
        self._progress.advance(self._all)
        text = "trials" if math.isnan(best) else f"trials, best {best:.4f}"
        self._progress.update(self._all, description=text)
        self.note(_describe(outcome, best))

    def note(self, text: str) -> None:
        if self._progress is None:
            print(text, file=self._stream, flush=True)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def build_sweep_reporter(report: SweepReport | SweepReporter) -> SweepReporter:
    r"""Makes a reporter from a word; anything else is taken as one.

    Args:
        report (str or SweepReporter): ``"auto"``, ``"rich"``, ``"plain"`` or ``"quiet"``.
    """
    if not isinstance(report, str):
        return report
    if report == "auto":
        report = "rich" if sys.stderr.isatty() else "plain"
    if report == "rich":
        return RichSweep(sys.stderr)
    return PlainSweep(sys.stderr) if report == "plain" else QuietSweep()


def _describe(outcome: TrialOutcome, best: float) -> str:
    if outcome.failure is not None:
        return f"{outcome.name}: failed, {str(outcome.failure)[:200]}"
    value = "no value" if math.isnan(outcome.value) else f"val {outcome.value:.4f}"
    how = f"stopped after epoch {outcome.epochs}" if outcome.state == "stopped" else ""
    shown = f"best {best:.4f}" if not math.isnan(best) else ""
    return "  ".join(filter(None, [f"{outcome.name}: {value}", how, shown]))
