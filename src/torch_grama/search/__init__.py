"""Sweeps: searches for good settings, on Ray Tune."""

from torch_grama.search.ray_session import run_on_ray
from torch_grama.search.space import Space, read_space
from torch_grama.search.sweep_result import SweepResult
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
