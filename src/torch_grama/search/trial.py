"""One trial of a sweep: its name, its folder, what is known of it, and what a worker does."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import statistics
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

import torch

from torch_grama.datasets import GraphTaskData
from torch_grama.experiments.config import DataConfig
from torch_grama.experiments.data_facts import load_data
from torch_grama.experiments.run import run_experiment
from torch_grama.experiments.settings import check_settings, make_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.memory import is_out_of_memory
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.result import Result, deviation
from torch_grama.runs.run_folder import RunBusyError, RunError, RunFolder
from torch_grama.runs.safe_files import Record, read_object
from torch_grama.training.progress import EpochReport, SilentReporter

TrialState = Literal["finished", "stopped", "failed", "unfinished"]
TRIAL, STOPPED, FAILURE = "trial.json", "stopped.json", "failure.json"
Report = Callable[[dict[str, object]], None]
"""Told ``step`` and ``val`` now and then; may raise ``SystemExit`` to end the trial."""
_LONGEST = 80
_LOCK_SECONDS = 60.0


def name_trial(point: Mapping[str, object]) -> str:
    r"""Names a trial after its settings: a readable part and a hash, always the same.

    Example:
        >>> name_trial({"optimizer.lr": 0.01, "model.seq_len": 4})
        'lr=0.01,seq_len=4-5c740dea'
    """
    words = [f"{n}={_word(v)}" for n, v in zip(shorten(point), point.values(), strict=True)]
    readable = re.sub(r"[^\w.=,+-]+", "_", ",".join(words))[:_LONGEST].strip("-,_.")
    key = json.dumps(dict(point), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest


def shorten(names: Collection[str]) -> list[str]:
    r"""The last parts of dotted names, or all of a name whose last part is not the only one."""
    last = [name.rpartition(".")[2] for name in names]
    return [w if last.count(w) == 1 else name for w, name in zip(last, names, strict=True)]


def _word(value: object) -> str:
    if isinstance(value, list | tuple):
        return "x".join(_word(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Failure:
    r"""Why a trial failed."""

    kind: str  # the kind of error, such as "out of memory"
    message: str  # what it said
    run: str = ""  # the run of the trial that failed
    traceback: str = ""  # where it happened

    def __str__(self) -> str:
        line = self.message.strip().partition("\n")[0]
        return f"{self.kind}: {line}" if line else self.kind


@dataclass(frozen=True)
class TrialOutcome:
    r"""What is known of a trial.

    Attributes:
        name: Its name.
        point: Its settings among those of the space.
        state: ``"finished"``, ``"stopped"`` (early, by the scheduler), ``"failed"`` or
            ``"unfinished"``.
        results: Its finished runs, by their names.
        value: Mean of the validation metric over its runs; of a stopped trial, what it had
            reached. NaN if there is none.
        epochs: Epochs that were run.
        failure: Why it failed.
    """

    name: str
    point: Mapping[str, object]
    state: TrialState
    results: Mapping[str, Result]
    value: float
    epochs: int
    failure: Failure | None = None

    @property
    def deviation(self) -> float | None:
        r"""Sample deviation over the runs; :obj:`None` for less than two."""
        return deviation([result.val for result in self.results.values()])

    @property
    def seconds(self) -> float:
        r"""Time spent in finished runs."""
        return sum(result.seconds for result in self.results.values())

    @property
    def is_settled(self) -> bool:
        r"""Whether there is nothing left to run."""
        return self.state != "unfinished"

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return {
            "name": self.name,
            "state": self.state,
            "settings": dict(self.point),
            "val": None if math.isnan(self.value) else self.value,
            "val_deviation": self.deviation,
            "runs": len(self.results),
            "epochs": self.epochs,
            "parameters": next((run.parameters for run in self.results.values()), None),
            "seconds": self.seconds,
            "message": "" if self.failure is None else str(self.failure),
        }


class TrialFolder:
    r"""The folder of one trial: ``trial.json`` with its settings, one folder a run, and
    ``stopped.json`` or ``failure.json`` if it did not come to its end.
    """

    def __init__(self, path: str | Path, runs: Sequence[str]) -> None:
        self.path = Path(path)
        self.runs = {name: RunFolder(self.path / name) for name in runs}

    def begin(self, point: Mapping[str, object]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(TRIAL, {"settings": dict(point)})

    def record_failure(self, failure: Failure) -> None:
        self._write(FAILURE, vars(failure))

    def record_stop(self, value: float, epochs: int) -> None:
        r"""Notes that the scheduler stopped the trial, and what it had reached."""
        self._write(STOPPED, {"value": None if math.isnan(value) else value, "epochs": epochs})

    def forget_failure(self) -> None:
        r"""Lets a failed trial run again."""
        (self.path / FAILURE).unlink(missing_ok=True)

    def read(self) -> TrialOutcome | None:
        r"""Reads what is known; :obj:`None` if no trial was begun here."""
        point = (read_object(self.path / TRIAL) or {}).get("settings")
        if not isinstance(point, dict):
            return None
        results = {name: found for name, run in self.runs.items() if (found := load_result(run))}
        value = statistics.fmean(r.val for r in results.values()) if results else math.nan
        epochs = sum(result.epochs for result in results.values())
        state: TrialState = "finished" if len(results) == len(self.runs) else "unfinished"
        failed, stopped = (read_object(self.path / name) for name in (FAILURE, STOPPED))
        failure = None
        if failed is not None:
            state, value = "failed", math.nan
            failure = Failure(*(str(failed.get(part.name, "")) for part in fields(Failure)))
        elif stopped is not None and state == "unfinished":
            state, reached = "stopped", Record(stopped)
            number, epochs = reached.number("value"), int(reached.number("epochs") or 0)
            value = math.nan if number is None else number
        return TrialOutcome(self.path.name, point, state, results, value, epochs, failure)

    def history(self, metric: str, higher_is_better: bool, span: int) -> list[tuple[int, float]]:
        r"""Returns what the trial had reached after each of its epochs, over all its runs: the
        steps of the second run begin at :obj:`span`.
        """
        best_of = max if higher_is_better else min
        steps: list[tuple[int, float]] = []
        finished: list[float] = []
        for number, run in enumerate(self.runs.values()):
            best = math.nan
            for epoch, value in _values(run.metrics, f"val/{metric}"):
                best = value if math.isnan(best) else best_of(best, value)
                steps.append((number * span + epoch, statistics.fmean([*finished, best])))
            if math.isnan(best):
                break
            finished.append(best)
        return steps

    def _write(self, name: str, content: object) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        place = self.path / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)  # nothing of ours: a file is to be there
        write_atomically(place, f"{text}\n".encode())


def list_trials(folder: Path, runs: Sequence[str]) -> list[TrialOutcome]:
    r"""Reads every trial, with runs of these names, that was begun in a folder; by name."""
    places = sorted(path for path in folder.glob("*") if path.is_dir())
    found = (TrialFolder(path, runs).read() for path in places)
    return [outcome for outcome in found if outcome is not None]


def load_result(run: RunFolder) -> Result | None:
    r"""Returns the result of a run; nothing if there is none, or it is damaged."""
    if not run.is_finished:
        return None
    try:
        return Result.load(run.result)
    except RunError:
        return None  # the trial is run again


def _values(path: Path, column: str) -> list[tuple[int, float]]:
    """Epoch and value of every row that has one."""
    try:
        rows = read_metrics(path)
        found = [(int(row["epoch"]), float(row[column])) for row in rows if row.get(column)]
    except (ValueError, KeyError):
        return []
    return [(epoch, value) for epoch, value in found if not math.isnan(value)]


@dataclass(frozen=True)
class TrialPlan:
    r"""What all trials of a sweep share."""

    folder: Path  # where trials lie
    base: Mapping[str, object]  # settings of every trial, under dotted names
    runs: Mapping[str, Mapping[str, object]]  # name of each run and the settings that make it
    span: int  # most epochs of a run
    milestones: tuple[int, ...] = ()  # steps at which the scheduler judges; each is reported
    interval: float = 1.0  # least seconds between other reports
    threads: int = 1  # threads that a trial computes with


def run_trial(plan: TrialPlan, name: str, point: Mapping[str, object], report: Report) -> None:
    r"""Runs what is missing of a trial.

    An error is a result too: it is noted in the folder and nothing is raised.
    """
    torch.set_num_threads(plan.threads)
    trial = TrialFolder(plan.folder / name, list(plan.runs))
    trial.begin(point)
    finished: list[float] = []
    current = ""
    try:
        for number, (current, changes) in enumerate(plan.runs.items()):
            watcher = _Watcher(plan, number, tuple(finished), report)
            settings = {**plan.base, **point, **changes}
            finished.append(_run(trial.runs[current], settings, watcher).val)
    except Exception as error:  # whatever it is, it is the result of these settings
        kind = "out of memory" if is_out_of_memory(error) else type(error).__name__
        trace = "".join(traceback.format_exception(error))
        trial.record_failure(Failure(kind, str(error), current, trace))
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        report({"failed": True})
        return
    value = statistics.fmean(finished)
    report({"step": len(plan.runs) * plan.span, "val": value, "finished": True})


def _run(run: RunFolder, settings: Mapping[str, object], watcher: _Watcher) -> Result:
    _wait_until_free(run)
    if not run.is_run:  # one that died before its settings were written has nothing to resume
        shutil.rmtree(run.path, ignore_errors=True)
    elif run.is_finished and load_result(run) is None:
        run.result.unlink()  # damaged; it is made again from the checkpoint
    data = _load(settings)
    config = make_config(settings, data=data)
    resume = run.is_run
    return run_experiment(config, run.path, resume=resume, test=False, report=watcher, data=data)


class _Watcher(SilentReporter):
    """Tells the sweep how a run goes: at the milestones, and otherwise now and then."""

    def __init__(
        self, plan: TrialPlan, number: int, finished: tuple[float, ...], report: Report
    ) -> None:
        super().__init__()
        self._plan = plan
        self._start = self._step = number * plan.span
        self._is_last = number == len(plan.runs) - 1
        self._finished = finished
        self._report = report
        self._told = 0.0

    def epoch(self, report: EpochReport) -> None:
        before, self._step = self._step, self._start + report.epoch
        if math.isnan(report.best_value):
            return
        if self._is_last and report.epoch == report.max_epochs:
            return  # told with the result, when the trial can no longer be stopped
        passed = any(before < milestone <= self._step for milestone in self._plan.milestones)
        now = time.monotonic()
        if passed or now - self._told >= self._plan.interval:
            self._told = now
            value = statistics.fmean([*self._finished, report.best_value])
            self._report({"step": self._step, "val": value})


_cached: dict[str, GraphTaskData] = {}


def _load(settings: Mapping[str, object]) -> GraphTaskData:
    """The data of the settings; a worker keeps the last it loaded, for its next trial."""
    config = DataConfig.from_settings(check_settings(("in the sweep", settings)))
    key = json.dumps({**asdict(config), "fold": 0}, sort_keys=True)
    if key not in _cached:
        _cached.clear()
        _cached[key] = load_data(config)
    data = _cached[key]
    return data if config.fold < len(data.folds) else load_data(config)  # which says so


def _wait_until_free(run: RunFolder) -> None:
    """A worker of a sweep that was killed may live a moment longer."""
    end = time.monotonic() + _LOCK_SECONDS
    while run.path.is_dir():
        try:
            with run.lock():
                return
        except RunBusyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
