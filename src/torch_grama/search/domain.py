"""One setting of a sweep: which values it may take."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torch_grama.experiments.config import ConfigError
from torch_grama.nn.arguments import list_nearest_first

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
