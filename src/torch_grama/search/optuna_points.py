"""Points proposed by Optuna, with what is known from an earlier session.

Ray's own ``OptunaSearch`` may propose a point twice, whose trials would share one folder.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState
from ray.tune.search import Searcher

from torch_grama.search.space import Domain, Point, Space
from torch_grama.search.trial import TrialOutcome, name_trial

_MOST_TRIES = 50


class OptunaPoints(Searcher):
    r"""A searcher of Ray Tune that asks Optuna's tree-structured Parzen estimator. No point is
    proposed twice.

    Trials of an earlier session are told to Optuna; unfinished ones are proposed first.
    """

    def __init__(
        self, space: Space, higher_is_better: bool, known: Iterable[TrialOutcome] = ()
    ) -> None:
        super().__init__(metric="val", mode="max" if higher_is_better else "min")
        known = list(known)
        self._space = space
        self._distributions = {n: _distribution(domain) for n, domain in space.domains.items()}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # another seed in every session, or the first draws would come again
        seed = space.searcher.seed + len(known)
        self._study = optuna.create_study(
            direction="maximize" if higher_is_better else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed),
        )
        self._random = random.Random(seed)
        self._trials: dict[str, optuna.trial.Trial] = {}
        # points of a space that was another are passed by
        known = [outcome for outcome in known if self._has(outcome.point)]
        self._waiting = [dict(outcome.point) for outcome in known if not outcome.is_settled]
        self._seen = {outcome.name for outcome in known if outcome.is_settled}
        for outcome in known:
            if outcome.is_settled and not math.isnan(outcome.value):
                done = optuna.trial.create_trial(
                    params=self._encode(outcome.point),
                    distributions=self._distributions,
                    value=outcome.value,
                )
                self._study.add_trial(done)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        r"""Proposes the next point, for the trial that Ray calls so."""
        point = self._take(self._waiting.pop(0), trial_id) if self._waiting else self._ask(trial_id)
        if point is None:
            return cast(dict[str, Any], Searcher.FINISHED)
        self._seen.add(name_trial(point))
        return {"point": point}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        r"""Tells Optuna how a trial ended."""
        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        value = float((result or {}).get("val", math.nan))
        if error or math.isnan(value) or (result or {}).get("failed"):
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, value)

    def save(self, checkpoint_path: str) -> None:
        r"""Does nothing: the folders of the trials are the state."""

    def restore(self, checkpoint_path: str) -> None:
        r"""Does nothing: the folders of the trials are the state."""

    def _ask(self, trial_id: str) -> Point | None:
        if len(self._seen) >= self._space.size:
            return None
        for _ in range(_MOST_TRIES):
            trial = self._study.ask(self._distributions)
            point = {n: _decode(self._space.domains[n], v) for n, v in trial.params.items()}
            if name_trial(point) not in self._seen:
                self._trials[trial_id] = trial
                return point
            self._study.tell(trial, state=TrialState.FAIL)
        # nearly all points are known: take any that is not
        for point in self._space.draw(10_000, self._random.randrange(2**31)):
            if name_trial(point) not in self._seen:
                return self._take(point, trial_id)
        return None

    def _take(self, point: Point, trial_id: str) -> Point:
        """Has Optuna ask for a point that was not its own idea."""
        self._study.enqueue_trial(self._encode(point))
        self._trials[trial_id] = self._study.ask(self._distributions)
        return point

    def _encode(self, point: Mapping[str, object]) -> dict[str, Any]:
        """Listed values by their places, so that any type can be listed."""
        domains = self._space.domains
        return {
            n: domains[n].values.index(v) if domains[n].is_list else v for n, v in point.items()
        }

    def _has(self, point: Mapping[str, object]) -> bool:
        domains = self._space.domains
        return set(point) == set(domains) and all(domains[n].has(v) for n, v in point.items())


def _distribution(domain: Domain) -> BaseDistribution:
    if not domain.is_list:
        low, high = domain.ends
        if domain.kind == "int":
            return IntDistribution(int(low), int(high))
        return FloatDistribution(low, high, log=domain.kind == "log_uniform")
    numbers = [value for value in domain.values if isinstance(value, int | float)]
    if len(numbers) == len(domain.values) and numbers == sorted(numbers):
        return IntDistribution(0, len(numbers) - 1)  # Optuna knows that they have an order
    return CategoricalDistribution(range(len(domain.values)))


def _decode(domain: Domain, value: Any) -> object:
    if domain.is_list:
        return domain.values[value]
    return value if domain.kind == "int" else domain.round(value)
