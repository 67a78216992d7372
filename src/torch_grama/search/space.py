"""A space of settings to search, as a YAML file describes it."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.settings import flatten, read_sections
from torch_grama.nn.arguments import list_nearest_first
from torch_grama.search.search_settings import (
    Repeat,
    ResourceSettings,
    SchedulerSettings,
    SearcherSettings,
    read_part,
    write_part,
)

DomainKind = Literal["grid", "choice", "uniform", "log_uniform", "int"]
_DIGITS = 4
"""Drawn numbers are rounded to so many digits: names and tables stay readable."""


@dataclass(frozen=True)
class Domain:
    r"""The values that one setting may take."""

    # "grid" and "choice" list values, "uniform", "log_uniform" and "int" are ranges with both
    # ends included
    kind: DomainKind
    values: tuple[object, ...]  # the list, or the two ends

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
                f"{list_nearest_first(str(kind), get_args(DomainKind))} (got {kind!r})"
            )
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(f"Expected '{name}.{kind}' to be a list of values (got {values!r})")
        is_list = kind in ("grid", "choice")
        return cls(kind, _distinct(name, values) if is_list else _ends(name, kind, values))

    @property
    def is_list(self) -> bool:
        r"""Whether the values are listed."""
        return self.kind in ("grid", "choice")

    @property
    def ends(self) -> tuple[float, float]:
        r"""The two ends of a range."""
        low, high = (float(str(end)) for end in self.values)
        return low, high

    @property
    def size(self) -> float:
        r"""Number of values; infinite for a range of real numbers."""
        if self.is_list:
            return len(self.values)
        return self.ends[1] - self.ends[0] + 1 if self.kind == "int" else math.inf

    @property
    def samples(self) -> tuple[object, ...]:
        r"""All values of a list; the ends of a range, and the middle of one of real numbers."""
        if self.is_list or self.kind == "int":
            return self.values
        low, high = self.ends
        return low, self.round((low + high) / 2), high

    def has(self, value: object) -> bool:
        r"""Whether a value is one of them."""
        if self.is_list:
            return value in self.values
        return isinstance(value, int | float) and self.ends[0] <= value <= self.ends[1]

    def draw(self, generator: random.Random) -> object:
        r"""Draws a value."""
        if self.is_list:
            return generator.choice(self.values)
        low, high = self.ends
        if self.kind == "int":
            return generator.randint(int(low), int(high))
        if self.kind == "log_uniform":
            return self.round(math.exp(generator.uniform(math.log(low), math.log(high))))
        return self.round(generator.uniform(low, high))

    def round(self, value: float) -> float:
        r"""Rounds a drawn number to a few digits, inside the range."""
        low, high = self.ends
        return min(max(float(f"{value:.{_DIGITS}g}"), low), high)


def _distinct(name: str, values: Sequence[object]) -> tuple[object, ...]:
    found: list[object] = []
    for value in values:
        if isinstance(value, Mapping):
            raise ConfigError(
                f"Expected the values of '{name}' to be numbers, words or lists (got {value!r})"
            )
        if any(type(value) is type(known) and value == known for known in found):
            raise ConfigError(f"Expected the values of '{name}' to differ (got {value!r} twice)")
        found.append(value)
    return tuple(found)


def _ends(name: str, kind: str, values: Sequence[object]) -> tuple[object, ...]:
    expected = f"Expected '{name}.{kind}' to be two numbers, the smaller first"
    try:
        # YAML reads 1e-4 as a word
        low, high = (
            float(value) if isinstance(value, str | int | float) else math.nan for value in values
        )
    except ValueError as error:
        raise ConfigError(f"{expected} (got {values!r})") from error
    if any(isinstance(value, bool) for value in values) or not low < high < math.inf:
        raise ConfigError(f"{expected} (got {values!r})")
    if kind == "log_uniform" and low <= 0:
        raise ConfigError(f"{expected}, both above zero (got {values!r})")
    if kind != "int":
        return low, high
    if not low.is_integer() or not high.is_integer():
        raise ConfigError(f"{expected}, both whole (got {values!r})")
    return int(low), int(high)


Point = dict[str, object]
"""One combination of values, under the dotted names of the space."""

KEYS = ("about", "base", "space", "repeat", "metric", "searcher", "scheduler", "resources")
_MOST_DRAWS = 10_000
"""A range so narrow that rounding leaves few values is given up after so many draws."""


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
        for key in content:
            if key not in KEYS:
                raise ConfigError(
                    f"There is no key '{key}' in a space; expected one of "
                    f"{list_nearest_first(str(key), KEYS)}"
                )
        base, axes = (_mapping(content.get(key) or {}, key) for key in ("base", "space"))
        settings = flatten(base)
        domains = {n: Domain.parse(n, domain) for n, domain in _flatten_domains(axes).items()}
        for name in domains:
            if name in settings:
                raise ConfigError(
                    f"Expected '{name}' under 'base' or under 'space', not under both"
                )
        return cls(
            base=settings,
            domains=domains,
            repeat=read_part(Repeat, "repeat", content.get("repeat")),
            searcher=read_part(SearcherSettings, "searcher", content.get("searcher")),
            scheduler=read_part(SchedulerSettings, "scheduler", content.get("scheduler")),
            resources=read_part(ResourceSettings, "resources", content.get("resources")),
            metric=_metric(content.get("metric", "val")),
            about=str(content.get("about", "")).strip(),
        )

    def to_dict(self) -> dict[str, object]:
        r"""Returns it in the layout of a file."""
        content: dict[str, object] = {
            "about": self.about,
            "base": dict(self.base),
            "space": {name: {d.kind: list(d.values)} for name, d in self.domains.items()},
            "repeat": write_part(self.repeat),
            "metric": self.metric,
            "searcher": write_part(self.searcher),
            "scheduler": write_part(self.scheduler),
            "resources": write_part(self.resources),
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
        lists = [domain.values for domain in self.domains.values()]
        for values in itertools.product(*lists):
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


def _flatten_domains(content: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted names; what has the name of a kind, or holds no mapping, is a domain."""
    found: dict[str, object] = {}
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and any(
            isinstance(inner, Mapping) for inner in value.values()
        ):
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
