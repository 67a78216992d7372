"""One session of a sweep: from the folder that is there to trials on Ray Tune and back."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray.tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from torch_grama.experiments.config import ConfigError
from torch_grama.runs.words import format_count
from torch_grama.search.ray_session import check_room, watch_machines
from torch_grama.search.space import Point, ResourceSettings, SchedulerSettings
from torch_grama.search.space_check import CheckedSpace
from torch_grama.search.sweep_result import TRIALS, SweepReporter, SweepResult
from torch_grama.search.trial import (
    Failure,
    TrialFolder,
    TrialOutcome,
    TrialPlan,
    list_trials,
    name_trial,
    run_trial,
)

_RAY_STATE = ".ray"
_WORKER_DEATHS = 3
"""So many deaths of its worker are forgiven a trial; it goes on from its last checkpoint."""


class SweepSession:
    r"""One session of a sweep: what is missing is found, run and noted."""

    def __init__(
        self,
        checked: CheckedSpace,
        folder: Path,
        reporter: SweepReporter,
        retry_failed: bool = False,
    ) -> None:
        self.checked = checked
        self.space = checked.space
        self.folder = folder
        self.reporter = reporter
        self.runs = self.space.repeat.runs()
        self.last_step = checked.span * len(self.runs)  # epochs of a trial, over all its runs
        for outcome in self._list() if retry_failed else ():
            if outcome.state == "failed":
                self.trial(outcome.name).forget_failure()
        self.outcomes = {outcome.name: outcome for outcome in self._list()}
        self._deaths: Counter[str] = Counter()
        self._lost: set[str] = set()
        asks = self.space.searcher_name == "optuna"
        self.points: list[Point] | None = None if asks else self.space.points()

    def trial(self, name: str) -> TrialFolder:
        return TrialFolder(self.folder / TRIALS / name, list(self.runs))

    def find_missing(self) -> int:
        r"""Returns the number of trials to run; points of settled ones are taken off the list."""
        settled = {name for name, outcome in self.outcomes.items() if outcome.is_settled}
        if self.points is None:
            return max(self.space.num_trials - len(settled), 0)
        self.points = [point for point in self.points if name_trial(point) not in settled]
        return len(self.points)

    def run(self, there: Mapping[str, float], obey: Callable[[], None]) -> None:
        r"""Runs what is missing with what Ray has; :obj:`obey` is called again and again, and
        raises where the sweep is to stop.
        """
        resources = self._resources(there)
        cpus, gpus = resources.cpus_per_trial, resources.gpus_per_trial or 0.0
        look = watch_machines(cpus, gpus)

        def between() -> None:
            obey()
            look()

        missing = self.find_missing()
        done = sum(outcome.is_settled for outcome in self.outcomes.values())
        runs = f" of {len(self.runs)} runs" if len(self.runs) > 1 else ""
        devices = f" and {format_count(gpus, 'GPU')}" if gpus else ""
        self.reporter.begin(
            done + missing,
            done,
            f"{self.space.base['data.name']}: {format_count(missing, 'trial')}{runs}, searcher "
            f"{self.space.searcher_name}, scheduler {self.space.scheduler.name}, "
            f"{cpus:g} of {format_count(there.get('CPU', 0), 'core')}{devices} a trial, in "
            f"{self.folder}",
        )
        state = self.folder / _RAY_STATE
        while missing:
            self._lost.clear()
            shutil.rmtree(state, ignore_errors=True)
            try:
                self._build_tuner(resources, missing, state, between).fit()
            finally:
                shutil.rmtree(state, ignore_errors=True)
            # each round has counted a death of every trial in it, so that the rounds end
            missing = self.find_missing() if self._lost else 0

    def forgive(self, name: str, given_up: bool) -> bool:
        r"""Counts a death of a trial's worker, and says whether the trial may go on.

        Ray gives a trial up at once if its worker dies while it is handed from one trial to the
        next; such a trial is run again when the others are done.
        """
        self._deaths[name] += 1
        forgiven = self._deaths[name] <= _WORKER_DEATHS
        if forgiven and given_up:
            self._lost.add(name)
        return forgiven

    def settle(self, name: str) -> None:
        r"""Reads a trial that ended, tells of it, and brings the table up to date."""
        outcome = self.trial(name).read()
        if outcome is None:
            return
        self.outcomes[name] = outcome
        result = self.write()
        self.reporter.settled(outcome, result.best.value if result.best else math.nan)

    def write(self) -> SweepResult:
        r"""Writes the table and the best settings, and returns all that is known."""
        result = SweepResult(
            self.folder,
            self.checked.metric,
            self.checked.higher_is_better,
            tuple(self.outcomes.values()),
            next(iter(self.runs)),
        )
        result.write()
        return result

    def _list(self) -> list[TrialOutcome]:
        return list_trials(self.folder / TRIALS, list(self.runs))

    def _resources(self, there: Mapping[str, float]) -> ResourceSettings:
        resources = self.space.resources
        if resources.gpus_per_trial is None:
            wants = self.space.base.get("trainer.accelerator", "auto") != "cpu"
            gpus = 1.0 if wants and there.get("GPU", 0) >= 1 else 0.0
            resources = replace(resources, gpus_per_trial=gpus)
        try:
            check_room(there, resources.cpus_per_trial, resources.gpus_per_trial or 0.0)
        except ValueError as error:
            raise ConfigError(f"{error}: lower `--cpus-per-trial` or `--gpus-per-trial`") from error
        return resources

    def _build_tuner(
        self, resources: ResourceSettings, missing: int, state: Path, obey: Callable[[], None]
    ) -> ray.tune.Tuner:
        scheduler = self.space.scheduler
        higher_is_better, span = self.checked.higher_is_better, self.checked.span
        plan = TrialPlan(
            folder=self.folder / TRIALS,
            base=self.space.base,
            runs=self.runs,
            span=span,
            milestones=list_milestones(scheduler, self.last_step),
            threads=max(1, int(resources.cpus_per_trial)),
        )

        def trainable(config: dict[str, Point]) -> None:
            run_trial(plan, name_trial(config["point"]), config["point"], ray.tune.report)

        searcher = None
        if self.points is None:
            from torch_grama.search.optuna_points import OptunaPoints

            searcher = OptunaPoints(self.space, higher_is_better, self.outcomes.values())
        histories = [
            (name, self.trial(name).history(self.checked.metric, higher_is_better, span))
            for name, outcome in self.outcomes.items()
            if outcome.state in ("finished", "stopped")
        ]
        return ray.tune.Tuner(
            ray.tune.with_resources(
                trainable, {"cpu": resources.cpus_per_trial, "gpu": resources.gpus_per_trial or 0.0}
            ),
            param_space={"point": ray.tune.grid_search(self.points)} if self.points else {},
            tune_config=ray.tune.TuneConfig(
                search_alg=searcher,
                scheduler=build_scheduler(scheduler, self.last_step, higher_is_better, histories),
                num_samples=missing if searcher is not None else 1,
                max_concurrent_trials=resources.concurrency,
                reuse_actors=True,
            ),
            run_config=ray.tune.RunConfig(
                name="tune",
                storage_path=str(state),
                failure_config=ray.tune.FailureConfig(max_failures=_WORKER_DEATHS),
                callbacks=[SweepCallback(self, obey)],
                verbose=0,
            ),
        )


class SweepCallback(ray.tune.Callback):
    r"""Keeps the folders of trials and the screen up to date."""

    def __init__(self, sweep: SweepSession, obey: Callable[[], None]) -> None:
        self._sweep = sweep
        self._obey = obey

    def __getstate__(self) -> dict[str, object]:
        # Ray stores its callbacks; a sweep is resumed from its own folders
        return {}

    def on_step_end(self, iteration: int, trials: Sequence[Trial], **info: object) -> None:
        self._obey()

    def on_trial_result(
        self,
        iteration: int,
        trials: Sequence[Trial],
        trial: Trial,
        result: Mapping[str, Any],
        **info: object,
    ) -> None:
        if "step" in result:
            fraction = float(result["step"]) / self._sweep.last_step
            self._sweep.reporter.running(_name(trial), fraction, float(result["val"]))

    def on_trial_complete(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when a trial came to its end, or was stopped by the scheduler."""
        name = _name(trial)
        last = trial.last_result
        folder = self._sweep.trial(name)
        if not last.get("finished") and not last.get("failed"):
            # Ray may have lost its last word: the folder decides
            outcome = folder.read()
            if outcome is not None and outcome.state == "unfinished":
                folder.record_stop(float(last.get("val", math.nan)), int(last.get("step", 0)))
        self._sweep.settle(name)

    def on_trial_recover(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when the worker of a trial died and another goes on with it."""
        self._sweep.forgive(_name(trial), given_up=False)
        self._sweep.reporter.note(f"{_name(trial)}: its worker died; it goes on in another")

    def on_trial_error(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when Ray gives up a trial whose worker died."""
        name = _name(trial)
        if self._sweep.forgive(name, given_up=True):
            self._sweep.reporter.note(f"{name}: its worker died; it is run again later")
            return
        folder = self._sweep.trial(name)
        folder.begin(trial.config["point"])
        text = ""
        with contextlib.suppress(OSError):  # Ray's note of it may be gone
            text = str(trial.get_error() or "")
        why = "its process was ended from outside, such as for memory, again and again"
        folder.record_failure(Failure("worker died", why, traceback=text))
        self._sweep.settle(name)


def _name(trial: Trial) -> str:
    return name_trial(trial.config["point"])


def list_milestones(settings: SchedulerSettings, last_step: int) -> tuple[int, ...]:
    r"""Returns the steps at which trials of so many epochs, over all their runs, are judged."""
    steps = []
    step = settings.grace_epochs
    while settings.name != "none" and step <= last_step:
        steps.append(step)
        step *= settings.reduction
    return tuple(steps)


def build_scheduler(
    settings: SchedulerSettings,
    last_step: int,
    higher_is_better: bool,
    histories: Iterable[tuple[str, list[tuple[int, float]]]] = (),
) -> TrialScheduler:
    r"""Builds the scheduler of Ray Tune; new trials are judged against the steps of those of an
    earlier session too.
    """
    milestones = list_milestones(settings, last_step)
    if not milestones:
        return FIFOScheduler()
    scheduler = ASHAScheduler(
        time_attr="step",
        metric="val",
        mode="max" if higher_is_better else "min",
        # a trial that comes to its last step ends by itself, with a result
        max_t=last_step + 1,
        grace_period=settings.grace_epochs,
        reduction_factor=settings.reduction,
    )
    nobody: Any = None  # ASHA asks nothing of the controller
    for name, steps in histories:
        known: Any = SimpleNamespace(trial_id=name)  # all that ASHA reads of a trial
        scheduler.on_trial_add(nobody, known)
        passed = 0
        for step, value in steps:
            reached = sum(milestone <= step for milestone in milestones)
            if reached > passed:
                passed = reached
                scheduler.on_trial_result(nobody, known, {"step": step, "val": value})
    return scheduler
