"""Checks that the settings of a run share."""

from __future__ import annotations

import math


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
