"""How a space is searched: runs per trial, choice of points, early stopping, resources."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeVar, get_args

from torch_grama.experiments.config import ConfigError
from torch_grama.nn.arguments import choose, list_nearest_first

SearcherName = Literal["grid", "random", "optuna"]
SchedulerName = Literal["none", "asha"]


@dataclass(frozen=True)
class Repeat:
    r"""The runs of one trial; its value is the mean over them."""

    folds: tuple[int, ...] = ()  # one run a fold; empty for the fold of the base
    seeds: tuple[int, ...] = ()  # one run a seed; empty for the seed of the base

    def __post_init__(self) -> None:
        for item in fields(self):
            numbers = getattr(self, item.name)
            found = numbers if numbers != [] and isinstance(numbers, list | tuple) else [None]
            if not all(type(n) is int and n >= 0 for n in found) or len(set(found)) < len(found):
                raise ConfigError(
                    f"Expected 'repeat.{item.name}' to be a list of different whole numbers from 0 "
                    f"on (got {numbers!r})"
                )
            object.__setattr__(self, item.name, tuple(found))

    def runs(self) -> dict[str, dict[str, object]]:
        r"""Returns the name of each run of a trial and the settings that make it."""
        axes = [("fold", "data.fold", self.folds), ("seed", "seed", self.seeds)]
        axes = [axis for axis in axes if axis[2]]
        found: dict[str, dict[str, object]] = {}
        for numbers in itertools.product(*(axis[2] for axis in axes)):
            words = [f"{word}-{n}" for (word, _, _), n in zip(axes, numbers, strict=True)]
            settings = {name: n for (_, name, _), n in zip(axes, numbers, strict=True)}
            found["-".join(words) or "run"] = dict(settings)
        return found


@dataclass(frozen=True)
class SearcherSettings:
    r"""How points are chosen."""

    # "grid": all; "random": drawn; "optuna": drawn where results so far promise most. Left out: a
    # grid if the space is one, otherwise random
    name: SearcherName | None = None
    num_trials: int | None = None  # number of points; a grid takes all. Left out: 20
    seed: int = 0  # where the draws start

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
class SchedulerSettings:
    r"""Whether poor trials end early."""

    # "none": every trial runs to its end; "asha": at certain epochs, trials that are worse than
    # most others were at that epoch are stopped
    name: SchedulerName = "none"
    grace_epochs: int = 10  # epochs that every trial may run
    # one in so many trials goes on at each of those epochs, which lie this factor apart
    reduction: int = 3

    def __post_init__(self) -> None:
        choose("scheduler", self.name, dict.fromkeys(get_args(SchedulerName)))
        _check_whole("scheduler.grace_epochs", self.grace_epochs, 1)
        _check_whole("scheduler.reduction", self.reduction, 2)


@dataclass(frozen=True)
class ResourceSettings:
    r"""What a trial may use."""

    cpus_per_trial: float = 1.0  # cores; parts of one are possible
    # GPUs; 0.5 for two trials on one. Left out: one where there are any
    gpus_per_trial: float | None = None
    concurrency: int | None = None  # most trials at a time. Left out: as many as there is room for

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


Part = TypeVar("Part", Repeat, SearcherSettings, SchedulerSettings, ResourceSettings)


def read_part(kind: type[Part], word: str, content: object) -> Part:
    r"""Reads one section of a space file: a section, a word for its name, or nothing."""
    known = [item.name for item in fields(kind)]
    content = {"name": content} if isinstance(content, str) and "name" in known else content
    if not isinstance(content, Mapping | None):
        raise ConfigError(
            f"Expected '{word}' to have {' or '.join(known)} below it (got {content!r})"
        )
    for key in content or ():
        if key not in known:
            raise ConfigError(
                f"There is no key '{word}.{key}' in a space; expected one of "
                f"{list_nearest_first(str(key), known)}"
            )
    try:
        return kind(**(content or {}))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_part(part: Part) -> dict[str, object]:
    r"""Returns a section in the layout of a file."""
    values = {item.name: getattr(part, item.name) for item in fields(part)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value != ()
    }


def _check_whole(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(
            f"Expected '{name}' to be a whole number of at least {least} (got {value!r})"
        )
