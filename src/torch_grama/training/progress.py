"""What the user sees while a model trains."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from torch_grama.nn.arguments import choose
from torch_grama.runs.words import format_metric, format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress

ReportName = Literal["auto", "rich", "plain", "quiet", "json"]
_INTERVAL = 5.0  # seconds between two lines of plain text


@dataclass(frozen=True)
class FitStart:
    r"""What is known before the first step."""

    data: str  #: name of the data set
    model: str  #: name of the model's class
    num_parameters: int  #: parameters to train
    parameter_budget: int | None  #: most that the benchmark allows, if it says
    device: str  #: what it trains on
    first_epoch: int  #: 0, or the epoch after which a resumed run goes on
    max_epochs: int  #: most epochs

    def __str__(self) -> str:
        budget = "" if self.parameter_budget is None else f" of {self.parameter_budget:,}"
        resumed = f", after epoch {self.first_epoch}" if self.first_epoch else ""
        return (
            f"{self.data}: {self.model}, {self.num_parameters:,} parameters{budget}, on "
            f"{self.device}{resumed}"
        )


@dataclass(frozen=True)
class EpochReport:
    r"""What is known after an epoch."""

    epoch: int  #: from 1 on
    max_epochs: int  #: most epochs
    train_loss: float  #: mean over its training targets
    metric: str  #: name of the metric
    value: float | None  #: its value on validation; :obj:`None` in an epoch without
    best_value: float  #: the best so far; NaN before the first
    best_epoch: int  #: its epoch; 0 before the first
    seconds_left: float  #: time left if all epochs are run

    def __str__(self) -> str:
        value = "-" if self.value is None else format_metric(self.value)
        best = (
            f"best {format_metric(self.best_value)} at {self.best_epoch}" if self.best_epoch else ""
        )
        return (
            f"epoch {self.epoch}/{self.max_epochs}  {format_seconds(self.seconds_left)} left  "
            f"loss {format_metric(self.train_loss)}  val {self.metric} {value}  {best}"
        )


class Reporter(Protocol):
    r"""Is told how a run goes. Anything with these methods can be passed to ``fit``."""

    def begin(self, start: FitStart) -> None:
        r"""Called before the first step."""

    def epoch(self, report: EpochReport) -> None:
        r"""Called after every epoch."""

    def note(self, text: str) -> None:
        r"""Called with what the user should know."""

    def end(self) -> None:
        r"""Called once, whatever happened."""


class SilentReporter:
    r"""Says nothing, or notes alone, on the standard error of whichever process it is in."""

    def __init__(self, notes: bool = False) -> None:
        self._notes = notes

    def begin(self, start: FitStart) -> None: ...

    def epoch(self, report: EpochReport) -> None: ...

    def note(self, text: str) -> None:
        if self._notes:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None: ...


class PlainReporter(SilentReporter):
    r"""A line at the start, at the end and now and then."""

    def __init__(self) -> None:
        super().__init__(notes=True)
        self._printed = -_INTERVAL
        self._waiting: EpochReport | None = None

    def begin(self, start: FitStart) -> None:
        self.note(str(start))

    def epoch(self, report: EpochReport) -> None:
        now = time.monotonic()
        self._waiting = report
        if now - self._printed >= _INTERVAL:
            self._printed = now
            self.end()

    def end(self) -> None:
        if self._waiting is not None:
            self.note(str(self._waiting))
            self._waiting = None


class RichReporter(SilentReporter):
    r"""A progress bar with epoch, loss, validation metric, best so far and time left."""

    def __init__(self) -> None:
        super().__init__(notes=True)
        self._progress: Progress | None = None
        self._shown = 0.0

    def begin(self, start: FitStart) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.table import Column

        # where the terminal is narrow the words give way, not the count
        count = Column(no_wrap=True, min_width=2 * len(str(start.max_epochs)) + 1)
        words = Column(no_wrap=True, overflow="ellipsis")
        self.note(str(start))
        self._progress = Progress(
            TextColumn("epoch"),
            MofNCompleteColumn(table_column=count),
            BarColumn(bar_width=10),
            TextColumn("{task.description}", table_column=words),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._progress.add_task("", total=start.max_epochs, completed=start.first_epoch)
        self._progress.start()

    def epoch(self, report: EpochReport) -> None:
        now = time.monotonic()
        if self._progress is None:
            return
        words = str(report).split("  ", 1)[1].replace("  ", ", ").replace("val ", "")
        self._progress.update(self._progress.task_ids[0], completed=report.epoch, description=words)
        # drawing costs more than a short epoch
        if now - self._shown >= 0.2:
            self._shown = now
            self._progress.refresh()

    def note(self, text: str) -> None:
        if self._progress is None:
            super().note(text)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.refresh()
            self._progress.stop()
            self._progress = None


def build_reporter(report: ReportName | Reporter, several: bool = False) -> Reporter:
    r"""Makes a reporter from a word; none of several processes can draw a bar."""
    if not isinstance(report, str):
        return report
    choose("report", report, dict.fromkeys(get_args(ReportName)))
    if report == "auto":
        report = "rich" if sys.stderr.isatty() else "plain"
    if report == "rich" and not several:
        return RichReporter()
    return PlainReporter() if report in ("plain", "rich") else SilentReporter(report == "quiet")
