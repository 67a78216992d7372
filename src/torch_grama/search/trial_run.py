"""What a worker does with one trial: its runs, one after the other."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from torch_grama.datasets import GraphTaskData
from torch_grama.experiments.config import DataConfig
from torch_grama.experiments.data_facts import load_data
from torch_grama.experiments.defaults import make_config
from torch_grama.experiments.run import run_experiment
from torch_grama.experiments.settings import check_settings
from torch_grama.runs.memory import is_out_of_memory
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunBusyError, RunFolder
from torch_grama.search.trial import Failure, TrialFolder, load_result
from torch_grama.training.progress import EpochReport, SilentReporter

Report = Callable[[dict[str, object]], None]
"""Told ``step`` and ``val`` now and then; may raise ``SystemExit`` to end the trial."""

_LOCK_SECONDS = 60.0


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
        trial.record_failure(_describe(error, current))
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
    return run_experiment(
        make_config(settings, data=_load(settings)),
        run.path,
        resume=run.is_run,
        test=False,
        report=watcher,
        data=_load(settings),
    )


class _Watcher(SilentReporter):
    """Tells the sweep how a run goes: at the milestones, and otherwise now and then."""

    def __init__(
        self, plan: TrialPlan, number: int, finished: tuple[float, ...], report: Report
    ) -> None:
        super().__init__()
        self._plan = plan
        self._start = number * plan.span
        self._is_last = number == len(plan.runs) - 1
        self._finished = finished
        self._report = report
        self._told = 0.0
        self._step = self._start

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


def _describe(error: Exception, run: str) -> Failure:
    kind = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    return Failure("out of memory" if is_out_of_memory(error) else kind, str(error), run, trace)
