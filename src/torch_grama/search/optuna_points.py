"""Points proposed by Optuna, with what is known from an earlier session."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState
from ray.tune.search.optuna import OptunaSearch

from torch_grama.search.space import Domain, Space
from torch_grama.search.trial import TrialOutcome, name_trial

_MOST_TRIES = 50


class OptunaPoints(OptunaSearch):
    r"""Ray's search by Optuna's tree-structured Parzen estimator. No point is proposed twice:
    its trials would share one folder.

    Trials of an earlier session are told to Optuna; unfinished ones are proposed first.
    """

    def __init__(
        self, space: Space, higher_is_better: bool, known: Iterable[TrialOutcome] = ()
    ) -> None:
        self._own = space
        known = list(known)
        # another seed in every session, or the first draws would come again
        seed = space.searcher.seed + len(known)
        self._random = random.Random(seed)
        # points of a space that was another are passed by
        known = [
            outcome
            for outcome in known
            if set(outcome.point) == set(space.domains)
            and all(space.domains[name].has(value) for name, value in outcome.point.items())
        ]
        self._seen = {outcome.name for outcome in known if outcome.is_settled}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        super().__init__(
            {name: _distribution(domain) for name, domain in space.domains.items()},
            metric="val",
            mode="max" if higher_is_better else "min",
            points_to_evaluate=[self._encode(o.point) for o in known if not o.is_settled],
            seed=seed,
        )
        for outcome in known:
            if outcome.is_settled and not math.isnan(outcome.value):
                self.add_evaluated_point(self._encode(outcome.point), outcome.value)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        study: Any = self._ot_study
        for attempt in count():
            if len(self._seen) >= self._own.size:
                break
            if attempt == _MOST_TRIES:  # nearly all points are known: take any that is not
                drawn = self._own.draw(10_000, self._random.randrange(2**31))
                fresh = next((p for p in drawn if name_trial(p) not in self._seen), None)
                if fresh is None:
                    break
                study.enqueue_trial(self._encode(fresh))
            values: Any = super().suggest(trial_id)
            point = {name: _decode(d, values[name]) for name, d in self._own.domains.items()}
            if name_trial(point) not in self._seen:
                self._seen.add(name_trial(point))
                return {"point": point}
            study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)
        return cast(dict[str, Any], self.FINISHED)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        r"""Does nothing: what counts is how a trial ends."""

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        result = result or {}
        failed = error or bool(result.get("failed")) or math.isnan(result.get("val", math.nan))
        super().on_trial_complete(trial_id, None if failed else result, failed)

    def save(self, checkpoint_path: str) -> None:
        r"""Does nothing: the folders of the trials are the state."""

    def _encode(self, point: Mapping[str, object]) -> dict[str, Any]:
        """Listed values by their places, so that any type can be listed."""
        domains = self._own.domains
        return {n: d.values.index(point[n]) if d.is_list else point[n] for n, d in domains.items()}


def _distribution(domain: Domain) -> BaseDistribution:
    if domain.kind == "int":
        return IntDistribution(*domain.values)
    if not domain.is_list:
        low, high = domain.values
        return FloatDistribution(low, high, log=domain.kind == "log_uniform")
    numbers = [value for value in domain.values if isinstance(value, int | float)]
    if len(numbers) == len(domain.values) and numbers == sorted(numbers):
        return IntDistribution(0, len(numbers) - 1)  # Optuna knows that they have an order
    return CategoricalDistribution(range(len(domain.values)))


def _decode(domain: Domain, value: Any) -> object:
    if domain.is_list:
        return domain.values[value]
    return value if domain.kind == "int" else domain.round(value)
