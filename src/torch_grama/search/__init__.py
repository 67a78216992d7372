"""Sweeps: searches for good settings, on Ray Tune.

The names below are loaded when they are first asked for: a space is read without Ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_grama.search.ray_tasks import run_on_ray
    from torch_grama.search.space import Space, read_space
    from torch_grama.search.sweep_table import SweepResult
    from torch_grama.search.trial import TrialOutcome
    from torch_grama.search.tune import SweepInterrupted, run_sweep

__all__ = [
    "Space",
    "SweepInterrupted",
    "SweepResult",
    "TrialOutcome",
    "read_space",
    "run_on_ray",
    "run_sweep",
]

_PLACES = {
    "Space": "space",
    "SweepInterrupted": "tune",
    "SweepResult": "sweep_table",
    "TrialOutcome": "trial",
    "read_space": "space",
    "run_on_ray": "ray_tasks",
    "run_sweep": "tune",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        value: object = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
