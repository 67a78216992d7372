"""Points proposed by Optuna, with what is known from an earlier session."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any, cast

import optuna
from ray.tune.search import Searcher

from torch_grama.search.domain import Domain
from torch_grama.search.space import Point, Space
from torch_grama.search.trial import TrialOutcome, name_trial
from torch_grama.search.trial_run import TrialChoice

_MOST_TRIES = 50


class OptunaPoints(Searcher):
    r"""A searcher of Ray Tune that asks Optuna's tree-structured Parzen estimator.

    No point is proposed twice. Trials of an earlier session are told to Optuna; unfinished ones
    are proposed first.

    Args:
        space (Space): What is searched.
        higher_is_better (bool): The direction in which the metric improves.
        known (iterable of TrialOutcome, optional): Trials of an earlier session.
            (default: none)
    """

    def __init__(
        self, space: Space, higher_is_better: bool, known: Iterable[TrialOutcome] = ()
    ) -> None:
        super().__init__(metric="val", mode="max" if higher_is_better else "min")
        known = list(known)
        self._space = space
        self._axes = {name: _Axis(domain) for name, domain in space.domains.items()}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._study = optuna.create_study(
            direction="maximize" if higher_is_better else "minimize",
            # another seed in every session, or the first draws would come again
            sampler=optuna.samplers.TPESampler(seed=space.searcher.seed + len(known)),
        )
        self._random = random.Random(space.searcher.seed + len(known))
        self._trials: dict[str, optuna.trial.Trial] = {}
        self._seen: set[str] = set()
        self._waiting: list[Point] = []
        for outcome in known:
            self._remember(outcome)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        r"""Proposes the next point.

        Args:
            trial_id (str): Ray's name for the trial.
        """
        point = self._waiting.pop(0) if self._waiting else None
        if point is not None:
            self._study.enqueue_trial(self._encode(point))
            self._trials[trial_id] = self._study.ask(self._distributions())
        else:
            point = self._ask(trial_id)
        if point is None:
            return cast(dict[str, Any], Searcher.FINISHED)
        name = name_trial(point)
        self._seen.add(name)
        return {"trial": TrialChoice(name=name, point=point)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        r"""Tells Optuna how a trial ended.

        Args:
            trial_id (str): Ray's name for the trial.
            result (dict, optional): What it reported last. (default: :obj:`None`)
            error (bool, optional): Whether it failed. (default: :obj:`False`)
        """
        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        value = math.nan if result is None else float(result.get("val", math.nan))
        if error or math.isnan(value) or (result is not None and result.get("failed")):
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
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
            trial = self._study.ask(self._distributions())
            point = {name: axis.decode(trial.params[name]) for name, axis in self._axes.items()}
            if name_trial(point) not in self._seen:
                self._trials[trial_id] = trial
                return point
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        # nearly all points are known: take any that is not
        for point in self._space.draw(10_000, self._random.randrange(2**31)):
            if name_trial(point) not in self._seen:
                self._study.enqueue_trial(self._encode(point))
                self._trials[trial_id] = self._study.ask(self._distributions())
                return point
        return None

    def _remember(self, outcome: TrialOutcome) -> None:
        point = dict(outcome.point)
        if set(point) != set(self._axes) or not all(
            axis.has(point[name]) for name, axis in self._axes.items()
        ):
            return  # of a space that was another
        if not outcome.is_settled:
            self._waiting.append(point)
            return
        self._seen.add(outcome.name)
        if not math.isnan(outcome.value):
            self._study.add_trial(
                optuna.trial.create_trial(
                    params=self._encode(point),
                    distributions=self._distributions(),
                    value=outcome.value,
                )
            )

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        return {name: axis.distribution for name, axis in self._axes.items()}

    def _encode(self, point: Point) -> dict[str, Any]:
        return {name: axis.encode(point[name]) for name, axis in self._axes.items()}


class _Axis:
    """A domain in Optuna's terms; listed values by their places, so that any type can be listed."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.distribution: optuna.distributions.BaseDistribution
        values = list(domain.values)
        if domain.is_list:
            numbers = [float(value) for value in values if isinstance(value, int | float)]
            if len(numbers) == len(values) and numbers == sorted(numbers):
                self.distribution = optuna.distributions.IntDistribution(0, len(values) - 1)
            else:
                self.distribution = optuna.distributions.CategoricalDistribution(range(len(values)))
            return
        low, high = (float(str(end)) for end in values)
        if domain.kind == "int":
            self.distribution = optuna.distributions.IntDistribution(int(low), int(high))
        else:
            self.distribution = optuna.distributions.FloatDistribution(
                low, high, log=domain.kind == "log_uniform"
            )

    def decode(self, value: object) -> object:
        if self._domain.is_list:
            return self._domain.values[int(str(value))]
        return value if self._domain.kind == "int" else self._domain.round(float(str(value)))

    def encode(self, value: object) -> object:
        return self._domain.values.index(value) if self._domain.is_list else value

    def has(self, value: object) -> bool:
        if self._domain.is_list:
            return value in self._domain.values
        low, high = (float(str(end)) for end in self._domain.values)
        return isinstance(value, int | float) and low <= value <= high
