"""One session of a sweep: from the folder that is there to trials on Ray Tune and back."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.experiments.config import ConfigError
from torch_grama.search.ray_tasks import check_room
from torch_grama.search.search_settings import ResourceSettings
from torch_grama.search.space import Point
from torch_grama.search.space_check import CheckedSpace
from torch_grama.search.sweep_progress import SweepReporter
from torch_grama.search.sweep_table import (
    TRIALS,
    SweepResult,
    sort_outcomes,
    write_best,
    write_table,
)
from torch_grama.search.trial import TrialFolder, TrialOutcome, list_trials, name_trial
from torch_grama.search.trial_run import TrialChoice, TrialPlan, run_trial

if TYPE_CHECKING:
    from ray.tune import Tuner

_RAY_STATE = ".ray"
_WORKER_DEATHS = 3
"""So many deaths of its worker are forgiven a trial; it goes on from its last checkpoint."""


class SweepSession:
    r"""One session of a sweep: what is missing is found, run and noted.

    Args:
        checked (CheckedSpace): What is searched.
        folder (Path): Where the sweep lies.
        reporter (SweepReporter): Told how it goes.
    """

    def __init__(self, checked: CheckedSpace, folder: Path, reporter: SweepReporter) -> None:
        self.checked = checked
        self.space = checked.space
        self.folder = folder
        self.reporter = reporter
        self.runs = self.space.repeat.runs()
        self.outcomes = {outcome.name: outcome for outcome in self._list()}
        self._deaths: Counter[str] = Counter()
        self._lost: set[str] = set()
        self.points: list[Point] | None = None
        if self.space.searcher_name != "optuna":
            self.points = self.space.points()

    @property
    def last_step(self) -> int:
        r"""Epochs of a trial, over all its runs."""
        return self.checked.span * len(self.runs)

    def trial(self, name: str) -> TrialFolder:
        r"""Returns the folder of a trial.

        Args:
            name (str): Its name.
        """
        return TrialFolder(self.folder / TRIALS / name, list(self.runs))

    def forget_failures(self) -> None:
        r"""Lets failed trials run again."""
        for name, outcome in self.outcomes.items():
            if outcome.state == "failed":
                self.trial(name).forget_failure()
        self.outcomes = {outcome.name: outcome for outcome in self._list()}

    def find_missing(self) -> int:
        r"""Returns the number of trials to run; points of settled ones are taken off the list."""
        settled = {name for name, outcome in self.outcomes.items() if outcome.is_settled}
        if self.points is None:
            return max(self.space.num_trials - len(settled), 0)
        self.points = [point for point in self.points if name_trial(point) not in settled]
        return len(self.points)

    def run(self, there: Mapping[str, float], obey: Callable[[], None]) -> None:
        r"""Runs what is missing.

        Args:
            there (mapping): What Ray has: ``"CPU"``, ``"GPU"`` and others to their number.
            obey (callable): Called again and again; raises where the sweep is to stop.

        Raises:
            ConfigError: There is less than a trial takes.
        """
        resources = self._resources(there)
        missing = self.find_missing()
        done = sum(outcome.is_settled for outcome in self.outcomes.values())
        runs = f" of {len(self.runs)} runs" if len(self.runs) > 1 else ""
        gpus = f" and {resources.gpus_per_trial:g} GPUs" if resources.gpus_per_trial else ""
        self.reporter.begin(
            done + missing,
            done,
            f"{self.space.base['data.name']}: {missing} trials{runs}, searcher "
            f"{self.space.searcher_name}, scheduler {self.space.scheduler.name}, "
            f"{resources.cpus_per_trial:g} of {there.get('CPU', 0):g} cores{gpus} a trial, in "
            f"{self.folder}",
        )
        state = self.folder / _RAY_STATE
        while True:
            self._lost.clear()
            shutil.rmtree(state, ignore_errors=True)
            try:
                self._build_tuner(resources, missing, state, obey).fit()
            finally:
                shutil.rmtree(state, ignore_errors=True)
            # each round has counted a death of every trial in it, so that the rounds end
            if not self._lost:
                return
            missing = self.find_missing()

    def forgive(self, name: str, given_up: bool) -> bool:
        r"""Counts a death of a trial's worker, and says whether the trial may go on.

        Ray gives a trial up at once if its worker dies while it is handed from one trial to the
        next; such a trial is run again when the others are done.

        Args:
            name (str): The name of the trial.
            given_up (bool): Whether Ray will not run it again by itself.
        """
        self._deaths[name] += 1
        forgiven = self._deaths[name] <= _WORKER_DEATHS
        if forgiven and given_up:
            self._lost.add(name)
        return forgiven

    def settle(self, name: str) -> None:
        r"""Reads a trial that ended, tells of it, and brings the table up to date.

        Args:
            name (str): Its name.
        """
        outcome = self.trial(name).read()
        if outcome is None:
            return
        self.outcomes[name] = outcome
        result = self.write()
        self.reporter.settled(outcome, result.best.value if result.best else math.nan)

    def write(self) -> SweepResult:
        r"""Writes the table and the best settings, and returns all that is known."""
        outcomes = sort_outcomes(list(self.outcomes.values()), self.checked.higher_is_better)
        result = SweepResult(
            self.folder,
            self.checked.metric,
            self.checked.higher_is_better,
            outcomes,
            next(iter(self.runs)),
        )
        write_table(result)
        write_best(result)
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
    ) -> Tuner:
        import ray.tune

        from torch_grama.search.early_stopping import build_scheduler, list_milestones
        from torch_grama.search.tune_callback import SweepCallback

        scheduler = self.space.scheduler
        plan = TrialPlan(
            folder=self.folder / TRIALS,
            base=self.space.base,
            runs=self.runs,
            span=self.checked.span,
            milestones=list_milestones(scheduler, self.last_step),
            threads=max(1, int(resources.cpus_per_trial)),
        )

        def trainable(config: dict[str, TrialChoice]) -> None:
            run_trial(plan, config["trial"]["name"], config["trial"]["point"], ray.tune.report)

        param_space: dict[str, object] = {}
        searcher = None
        if self.points is None:
            from torch_grama.search.optuna_points import OptunaPoints

            searcher = OptunaPoints(
                self.space, self.checked.higher_is_better, self.outcomes.values()
            )
        else:
            trials = [TrialChoice(name=name_trial(point), point=point) for point in self.points]
            param_space = {"trial": ray.tune.grid_search(trials)}

        histories = [
            (name, self._history(name))
            for name, outcome in self.outcomes.items()
            if outcome.state in ("finished", "stopped")
        ]
        return ray.tune.Tuner(
            ray.tune.with_resources(
                trainable, {"cpu": resources.cpus_per_trial, "gpu": resources.gpus_per_trial or 0.0}
            ),
            param_space=param_space,
            tune_config=ray.tune.TuneConfig(
                search_alg=searcher,
                scheduler=build_scheduler(
                    scheduler, self.last_step, self.checked.higher_is_better, histories
                ),
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

    def _history(self, name: str) -> list[tuple[int, float]]:
        return self.trial(name).history(
            self.checked.metric, self.checked.higher_is_better, self.checked.span
        )
