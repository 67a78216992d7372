"""How a space is searched: runs a trial, choice of points, early stopping, resources."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self, get_args

from torch_grama.experiments.config import ConfigError
from torch_grama.nn.arguments import choose, list_nearest_first

SearcherName = Literal["grid", "random", "optuna"]
SchedulerName = Literal["none", "asha"]


@dataclass(frozen=True)
class Repeat:
    r"""The runs of one trial; its value is the mean over them.

    Attributes:
        folds: One run a fold; empty for the fold of the base.
        seeds: One run a seed; empty for the seed of the base.
    """

    folds: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()

    @classmethod
    def parse(cls, content: object) -> Repeat:
        r"""Reads what a space file says, such as ``{folds: [0, 1, 2]}``.

        Args:
            content (object): What was written; :obj:`None` for a single run.

        Raises:
            ConfigError: It cannot be read.
        """
        found: dict[str, tuple[int, ...]] = {}
        for name, numbers in _section("repeat", content, ("folds", "seeds")).items():
            listed = numbers if isinstance(numbers, list | tuple) else []
            found[name] = tuple(number for number in listed if type(number) is int and number >= 0)
            if not listed or len(set(found[name])) < len(listed):
                raise ConfigError(
                    f"Expected 'repeat.{name}' to be a list of different whole numbers from 0 on "
                    f"(got {numbers!r})"
                )
        return cls(**found)

    def runs(self) -> dict[str, dict[str, object]]:
        r"""Returns the name of each run of a trial and the settings that make it."""
        axes = [
            [(f"{word}-{number}", {name: number}) for number in numbers]
            for word, name, numbers in (
                ("fold", "data.fold", self.folds),
                ("seed", "seed", self.seeds),
            )
            if numbers
        ]
        found: dict[str, dict[str, object]] = {}
        for parts in itertools.product(*axes):
            settings: dict[str, object] = {}
            for _, changes in parts:
                settings |= changes
            found["-".join(word for word, _ in parts) or "run"] = settings
        return found

    def to_dict(self) -> dict[str, object]:
        r"""Returns it in the layout of a file."""
        values = {"folds": list(self.folds), "seeds": list(self.seeds)}
        return {name: numbers for name, numbers in values.items() if numbers}


@dataclass(frozen=True)
class _Part:
    """A section of a space file in which a word alone stands for the name."""

    @classmethod
    def parse(cls, content: object) -> Self:
        r"""Reads what a space file says.

        Args:
            content (object): A section, a word for its name, or :obj:`None`.

        Raises:
            ConfigError: It cannot be read.
        """
        word = cls.__name__.removesuffix("Settings").lower().replace("resource", "resources")
        if isinstance(content, str):
            content = {"name": content}
        values = _section(word, content, [item.name for item in fields(cls)])
        try:
            return cls(**values)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def to_dict(self) -> dict[str, object]:
        r"""Returns it in the layout of a file."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class SearcherSettings(_Part):
    r"""How points are chosen.

    Attributes:
        name: ``"grid"``: all; ``"random"``: drawn; ``"optuna"``: drawn where results so far
            promise most. Left out: a grid if the space is one, otherwise random.
        num_trials: Number of points; a grid takes all. Left out: 20.
        seed: Where the draws start.
    """

    name: SearcherName | None = None
    num_trials: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name is not None:
            choose("searcher", self.name, dict.fromkeys(get_args(SearcherName)))
        if self.num_trials is not None:
            _check_whole("searcher.num_trials", self.num_trials, 1)
            if self.name == "grid":
                raise ConfigError(
                    "Expected no 'num_trials' with a grid, which takes every point (got "
                    f"{self.num_trials}): leave it out, or take `--searcher random`"
                )
        _check_whole("searcher.seed", self.seed, 0)


@dataclass(frozen=True)
class SchedulerSettings(_Part):
    r"""Whether poor trials end early.

    Attributes:
        name: ``"none"``: every trial runs to its end; ``"asha"``: at certain epochs, trials that
            are worse than most others were at that epoch are stopped.
        grace_epochs: Epochs that every trial may run.
        reduction: One in so many trials goes on at each of those epochs, which lie this factor
            apart.
    """

    name: SchedulerName = "none"
    grace_epochs: int = 10
    reduction: int = 3

    def __post_init__(self) -> None:
        choose("scheduler", self.name, dict.fromkeys(get_args(SchedulerName)))
        _check_whole("scheduler.grace_epochs", self.grace_epochs, 1)
        _check_whole("scheduler.reduction", self.reduction, 2)


@dataclass(frozen=True)
class ResourceSettings(_Part):
    r"""What a trial may use.

    Attributes:
        cpus_per_trial: Cores; parts of one are possible.
        gpus_per_trial: GPUs; 0.5 for two trials on one. Left out: one where there are any.
        concurrency: Most trials at a time. Left out: as many as there is room for.
    """

    cpus_per_trial: float = 1.0
    gpus_per_trial: float | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("cpus_per_trial", "above 0"), ("gpus_per_trial", "at least 0")):
            value = getattr(self, name)
            if value is None:
                continue
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            if not fits or not 0 <= value < math.inf or (value == 0 and name == "cpus_per_trial"):
                raise ConfigError(f"Expected 'resources.{name}' to be {least} (got {value!r})")
            if value > 1 and value != int(value):
                raise ConfigError(
                    f"Expected 'resources.{name}' to be whole above 1 (got {value!r})"
                )
        if self.concurrency is not None:
            _check_whole("resources.concurrency", self.concurrency, 1)


def _section(word: str, content: object, known: Sequence[str]) -> dict[str, object]:
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"Expected '{word}' to have {' or '.join(known)} below it (got {content!r})"
        )
    for key in content:
        if key not in known:
            raise ConfigError(
                f"There is no key '{word}.{key}' in a space; expected one of "
                f"{list_nearest_first(str(key), known)}"
            )
    return dict(content)


def _check_whole(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(
            f"Expected '{name}' to be a whole number of at least {least} (got {value!r})"
        )
