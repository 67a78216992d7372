"""A space of settings to search, as a YAML file describes it, and how it is searched."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.settings import flatten, read_sections
from torch_grama.nn.arguments import choose
from torch_grama.runs.words import name_nearest

DomainKind = Literal["grid", "choice", "uniform", "log_uniform", "int"]
SearcherName = Literal["grid", "random", "optuna"]
SchedulerName = Literal["none", "asha"]
Point = dict[str, object]
"""One combination of values, under the dotted names of the space."""
_DIGITS = 4
"""Drawn numbers are rounded to so many digits: names and tables stay readable."""
_MOST_DRAWS = 10_000
"""A range so narrow that rounding leaves few values is given up after so many draws."""


@dataclass(frozen=True)
class Domain:
    r"""The values that one setting may take."""

    # "grid" and "choice" list values, "uniform", "log_uniform" and "int" are ranges with both
    # ends included
    kind: DomainKind
    values: tuple[Any, ...]  # the list, or the two ends

    @classmethod
    def parse(cls, name: str, content: object) -> Domain:
        r"""Reads a domain as a space file writes it, such as ``{grid: [1, 2]}``."""
        if not isinstance(content, Mapping) or len(content) != 1:
            raise ConfigError(
                f"Expected '{name}' in the space to be one of {{grid: [...]}}, {{choice: [...]}}, "
                f"{{uniform: [a, b]}}, {{log_uniform: [a, b]}}, {{int: [a, b]}} (got {content!r}); "
                f"a fixed value belongs under 'base'"
            )
        ((kind, values),) = content.items()
        if kind not in get_args(DomainKind):
            raise ConfigError(
                f"Expected '{name}' in the space to have one of "
                f"{name_nearest(str(kind), get_args(DomainKind))} (got {kind!r})"
            )
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(f"Expected '{name}.{kind}' to be a list of values (got {values!r})")
        is_list = kind in ("grid", "choice")
        return cls(kind, _distinct(name, values) if is_list else _ends(name, kind, values))

    @property
    def is_list(self) -> bool:
        return self.kind in ("grid", "choice")

    @property
    def size(self) -> float:
        r"""Number of values; infinite for a range of real numbers."""
        if self.kind == "int":
            return float(self.values[1] - self.values[0] + 1)
        return len(self.values) if self.is_list else math.inf

    @property
    def samples(self) -> tuple[object, ...]:
        r"""All values of a list; the ends of a range, and the middle of one of real numbers."""
        if self.is_list or self.kind == "int":
            return self.values
        low, high = self.values
        return low, self.round((low + high) / 2), high

    def has(self, value: object) -> bool:
        if self.is_list:
            return value in self.values
        return isinstance(value, int | float) and self.values[0] <= value <= self.values[1]

    def draw(self, generator: random.Random) -> object:
        if self.is_list:
            return generator.choice(self.values)
        low, high = self.values
        if self.kind == "int":
            return generator.randint(low, high)
        if self.kind == "log_uniform":
            return self.round(math.exp(generator.uniform(math.log(low), math.log(high))))
        return self.round(generator.uniform(low, high))

    def round(self, value: float) -> float:
        r"""Rounds a drawn number to a few digits, inside the range."""
        return float(min(max(float(f"{value:.{_DIGITS}g}"), self.values[0]), self.values[1]))


def _distinct(name: str, values: Sequence[object]) -> tuple[object, ...]:
    for place, value in enumerate(values):
        if isinstance(value, Mapping):
            raise ConfigError(
                f"Expected the values of '{name}' to be numbers, words or lists (got {value!r})"
            )
        if any(type(value) is type(known) and value == known for known in values[:place]):
            raise ConfigError(f"Expected the values of '{name}' to differ (got {value!r} twice)")
    return tuple(values)


def _ends(name: str, kind: str, values: Sequence[object]) -> tuple[float, float]:
    rule = {"log_uniform": ", both above zero", "int": ", both whole"}.get(kind, "")
    expected = f"Expected '{name}.{kind}' to be two numbers, the smaller first{rule}"
    try:
        low, high = (float(str(value)) for value in values)  # YAML reads 1e-4 as a word
    except ValueError as error:
        raise ConfigError(f"{expected} (got {values!r})") from error
    fits = low > 0 if kind == "log_uniform" else kind != "int" or (low % 1 == high % 1 == 0)
    if not -math.inf < low < high < math.inf or not fits:
        raise ConfigError(f"{expected} (got {values!r})")
    return (int(low), int(high)) if kind == "int" else (low, high)


@dataclass(frozen=True)
class Repeat:
    r"""The runs of one trial; its value is the mean over them."""

    folds: tuple[int, ...] = ()  # one run a fold; empty for the fold of the base
    seeds: tuple[int, ...] = ()  # one run a seed; empty for the seed of the base

    def __post_init__(self) -> None:
        for name in ("folds", "seeds"):
            numbers = getattr(self, name)
            found = numbers if numbers != [] and isinstance(numbers, list | tuple) else [None]
            if not all(type(n) is int and n >= 0 for n in found) or len(set(found)) < len(found):
                raise ConfigError(
                    f"Expected 'repeat.{name}' to be a list of different whole numbers from 0 on "
                    f"(got {numbers!r})"
                )
            object.__setattr__(self, name, tuple(found))

    def runs(self) -> dict[str, dict[str, object]]:
        r"""Returns the name of each run of a trial and the settings that make it."""
        found: dict[str, dict[str, object]] = {}
        for fold, seed in itertools.product(self.folds or [None], self.seeds or [None]):
            given = {w: n for w, n in (("fold", fold), ("seed", seed)) if n is not None}
            name = "-".join(f"{word}-{number}" for word, number in given.items()) or "run"
            found[name] = {"data.fold" if w == "fold" else w: n for w, n in given.items()}
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
        _check_whole("searcher.num_trials", self.num_trials, 1)
        if self.name == "grid" and self.num_trials is not None:
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
        _check_whole("resources.concurrency", self.concurrency, 1)


def _check_whole(name: str, value: object, least: int) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise ConfigError(
            f"Expected '{name}' to be a whole number of at least {least} (got {value!r})"
        )


_PARTS: dict[str, Any] = {
    "repeat": Repeat,
    "searcher": SearcherSettings,
    "scheduler": SchedulerSettings,
    "resources": ResourceSettings,
}


@dataclass(frozen=True)
class Space:
    r"""What a sweep searches, and how.

    Attributes:
        base: Settings of every trial, under dotted names.
        domains: Dotted name to the values it may take.
        repeat: The runs of one trial.
        searcher: How points are chosen.
        scheduler: Whether poor trials end early.
        resources: What a trial may use.
        metric: What is compared: ``"val"``, always on validation.
        about: A sentence for the reader of the file.
    """

    base: Mapping[str, object]
    domains: Mapping[str, Domain]
    repeat: Repeat = field(default_factory=Repeat)
    searcher: SearcherSettings = field(default_factory=SearcherSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    resources: ResourceSettings = field(default_factory=ResourceSettings)
    metric: str = "val"
    about: str = ""

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Space:
        r"""Makes a space of what a file holds.

        Args:
            content (mapping): Keys ``base``, ``space``, ``repeat``, ``searcher``, ``scheduler``,
                ``resources``, ``metric`` and ``about``; all but ``space`` may be missing.

        Raises:
            ConfigError: A key is unknown (the nearest is named), or a value cannot be.
        """
        _check_keys(content, ("about", "base", "space", "metric", *_PARTS))
        base, axes = (_mapping(content.get(key) or {}, key) for key in ("base", "space"))
        settings = flatten(base)
        domains = {n: Domain.parse(n, domain) for n, domain in _flatten_domains(axes).items()}
        for name in domains:
            if name in settings:
                raise ConfigError(
                    f"Expected '{name}' under 'base' or under 'space', not under both"
                )
        return cls(
            settings,
            domains,
            **{word: _read_part(word, content.get(word)) for word in _PARTS},
            metric=_metric(content.get("metric", "val")),
            about=str(content.get("about", "")).strip(),
        )

    def to_dict(self) -> dict[str, object]:
        r"""Returns it in the layout of a file."""
        content: dict[str, object] = {
            "about": self.about,
            "base": dict(self.base),
            "space": {name: {d.kind: list(d.values)} for name, d in self.domains.items()},
            "metric": self.metric,
        }
        for word in _PARTS:
            content[word] = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in asdict(getattr(self, word)).items()
                if value is not None and value != ()
            }
        return {key: value for key, value in content.items() if value not in ("", {})}

    def with_settings(self, settings: Mapping[str, object]) -> Space:
        r"""Returns the space with some settings fixed; those of the space are searched no more.

        Args:
            settings (mapping): Dotted names and values.
        """
        domains = {name: domain for name, domain in self.domains.items() if name not in settings}
        return replace(self, base={**self.base, **settings}, domains=domains)

    @property
    def size(self) -> float:
        r"""Number of points; infinite where a range of real numbers is searched."""
        return math.prod(domain.size for domain in self.domains.values())

    @property
    def searcher_name(self) -> str:
        r"""The searcher: the one that is set, or ``"grid"`` where all values are listed."""
        is_grid = all(domain.kind == "grid" for domain in self.domains.values())
        return self.searcher.name or ("grid" if is_grid else "random")

    @property
    def num_trials(self) -> int:
        r"""Number of trials of the whole sweep."""
        if self.searcher_name == "grid":
            return int(self.size)
        return int(min(self.searcher.num_trials or 20, self.size))

    def grid(self) -> Iterator[Point]:
        r"""Yields every combination, the last setting changing fastest.

        Raises:
            ConfigError: A setting has a range instead of a list of values.
        """
        for name, domain in self.domains.items():
            if not domain.is_list:
                raise ConfigError(
                    f"Expected a list of values for '{name}' in a grid (got a range, "
                    f"'{domain.kind}'): list them, or take `--searcher random`"
                )
        for values in itertools.product(*(domain.values for domain in self.domains.values())):
            yield dict(zip(self.domains, values, strict=True))

    def draw(self, count: int, seed: int = 0) -> Iterator[Point]:
        r"""Yields points drawn at random, no two the same and always the same for one seed.

        Args:
            count (int): How many; fewer where there are no more.
            seed (int, optional): Where randomness starts. (default: :obj:`0`)
        """
        generator = random.Random(seed)
        seen: set[str] = set()
        fruitless = 0
        while len(seen) < min(count, self.size) and fruitless < _MOST_DRAWS:
            point = {name: domain.draw(generator) for name, domain in self.domains.items()}
            key = json.dumps(point, sort_keys=True)
            fruitless += 1
            if key not in seen:
                fruitless = 0
                seen.add(key)
                yield point

    def points(self) -> list[Point]:
        r"""Returns the points of a grid or a random search.

        Raises:
            ConfigError: A grid has a range.
        """
        if self.searcher_name == "grid":
            return list(self.grid())
        return list(self.draw(self.num_trials, self.searcher.seed))


def read_space(path: str | Path) -> Space:
    r"""Reads a space from a YAML file.

    Args:
        path (str or Path): The file.

    Raises:
        ConfigError: The file cannot be read, or something in it cannot be; the message names it.
    """
    content = read_sections(path)
    if "space" not in content:
        raise ConfigError(
            f"'{path}' describes no space: write 'base:' with settings and 'space:' with lines "
            f"such as `optimizer.lr: {{grid: [0.01, 0.001]}}`"
        )
    try:
        return Space.from_dict(content)
    except ConfigError as error:
        raise ConfigError(f"{error} (in '{path}')") from error


def _read_part(word: str, content: object) -> Any:
    """Reads a section, a word for its name, or nothing."""
    known = [item.name for item in fields(_PARTS[word])]
    content = {"name": content} if isinstance(content, str) and "name" in known else content
    if not isinstance(content, Mapping | None):
        raise ConfigError(
            f"Expected '{word}' to have {' or '.join(known)} below it (got {content!r})"
        )
    _check_keys(content or {}, known, f"{word}.")
    try:
        return _PARTS[word](**(content or {}))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check_keys(content: Mapping[str, object], known: Collection[str], prefix: str = "") -> None:
    for key in content:
        if key not in known:
            raise ConfigError(
                f"There is no key '{prefix}{key}' in a space; expected one of "
                f"{name_nearest(str(key), known)}"
            )


def _flatten_domains(content: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted names; what has the name of a kind, or holds no mapping, is a domain."""
    found: dict[str, object] = {}
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and any(isinstance(v, Mapping) for v in value.values()):
            found |= _flatten_domains(value, f"{name}.")
        else:
            found[{"model": "model.name", "data": "data.name"}.get(name, name)] = value
    return found


def _mapping(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"Expected '{key}' to be a section with settings (got {value!r})")
    return value


def _metric(value: object) -> str:
    if value == "val" or (isinstance(value, str) and value.startswith("val/")):
        return value
    raise ConfigError(
        f"Expected 'metric' to be 'val', or 'val/' and the metric of the data (got {value!r}): a "
        f"sweep compares on validation and leaves the test part unread"
    )
