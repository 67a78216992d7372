"""What constructors are given: words of a closed set, sizes, activations; and names of old."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import ParamSpec, TypeVar

import torch.nn.functional as F

from torch_grama.nn.engine.sequence import Activation as Activation
from torch_grama.nn.engine.sequence import identity

T = TypeVar("T")
P = ParamSpec("P")

ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": F.tanh,
    "leaky_relu": F.leaky_relu,
    "identity": identity,
}


def choose(name: str, word: object, choices: Mapping[str, T]) -> T:
    r"""Returns the entry of :obj:`choices` named by :obj:`word`; an error lists all of them."""
    if isinstance(word, str) and word in choices:
        return choices[word]
    raise ValueError(
        f"Expected '{name}' to be one of {list_nearest_first(str(word), choices)} (got {word!r})"
    )


def list_nearest_first(word: str, choices: Iterable[str]) -> str:
    r"""Lists words in quotes, the one most similar to :obj:`word` first."""
    ranked = sorted(
        choices, key=lambda choice: -SequenceMatcher(None, word.lower(), choice.lower()).ratio()
    )
    return ", ".join(f"'{choice}'" for choice in ranked)


def resolve_activation(act: str | Activation | None) -> Activation:
    r"""Turns a name, a callable or :obj:`None` (no activation) into a callable."""
    if act is None:
        return identity
    if isinstance(act, str):
        return choose("act", act, ACTIVATIONS)
    if callable(act):
        return act
    raise TypeError(f"Expected 'act' to be a name, a callable or None (got {type(act).__name__})")


def check_positive(**sizes: int | None) -> None:
    r"""Raises for a size below 1; :obj:`None` stands for one that has a default."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"Expected '{name}' to be at least 1 (got {size})")


def check_number(
    name: str, value: float, *, above: float | None = None, least: float = 0.0
) -> None:
    r"""Raises unless a number is finite and above or at least a bound."""
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"Expected '{name}' to be a finite number (got {value!r})")
    if above is not None and value <= above:
        raise ValueError(f"Expected '{name}' to be greater than {above:g} (got {value!r})")
    if above is None and value < least:
        raise ValueError(f"Expected '{name}' to be at least {least:g} (got {value!r})")


def check_count(name: str, value: int, least: int = 1) -> None:
    r"""Raises a :class:`ValueError` unless a whole number is at least :obj:`least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"Expected '{name}' to be a whole number from {least} on (got {value!r})")


def check_input_sizes(in_channels: int, dropout: float) -> None:
    r"""Checks the width of the input, positive or -1 for a lazy model, and the dropout rate."""
    if in_channels < 1 and in_channels != -1:
        raise ValueError(f"Expected 'in_channels' to be positive or -1 (got {in_channels})")
    if not 0 <= dropout < 1:
        raise ValueError(f"Expected 'dropout' to be at least 0 and below 1 (got {dropout})")


def explain_old_names(
    renamed: Mapping[str, str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    r"""Makes a constructor answer arguments of an earlier version with what to write now."""

    def decorate(construct: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(construct)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            for name in kwargs.keys() & renamed.keys():
                raise TypeError(
                    f"Expected no argument '{name}', which this version does not have; "
                    f"{renamed[name]}"
                )
            construct(*args, **kwargs)

        return checked

    return decorate
