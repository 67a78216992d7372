"""The scheduler of a sweep: which trials end early."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from torch_grama.search.search_settings import SchedulerSettings


def list_milestones(settings: SchedulerSettings, last_step: int) -> tuple[int, ...]:
    r"""Returns the steps at which trials of so many epochs, over all their runs, are judged."""
    if settings.name == "none":
        return ()
    steps = []
    step = settings.grace_epochs
    while step <= last_step:
        steps.append(step)
        step *= settings.reduction
    return tuple(steps)


def build_scheduler(
    settings: SchedulerSettings,
    last_step: int,
    higher_is_better: bool,
    histories: Iterable[tuple[str, list[tuple[int, float]]]] = (),
) -> TrialScheduler:
    r"""Builds the scheduler of Ray Tune; new trials are judged against the steps of those of an
    earlier session too.
    """
    milestones = list_milestones(settings, last_step)
    if not milestones:
        return FIFOScheduler()
    scheduler = ASHAScheduler(
        time_attr="step",
        metric="val",
        mode="max" if higher_is_better else "min",
        # a trial that comes to its last step ends by itself, with a result
        max_t=last_step + 1,
        grace_period=settings.grace_epochs,
        reduction_factor=settings.reduction,
    )
    nobody: Any = None  # ASHA asks nothing of the controller
    for name, steps in histories:
        known: Any = SimpleNamespace(trial_id=name)  # all that ASHA reads of a trial
        scheduler.on_trial_add(nobody, known)
        passed = 0
        for step, value in steps:
            reached = sum(milestone <= step for milestone in milestones)
            if reached > passed:
                passed = reached
                scheduler.on_trial_result(nobody, known, {"step": step, "val": value})
    return scheduler
