"""What Ray Tune tells a sweep about its trials."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from torch_grama.search.trial import Failure

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from torch_grama.search.sweep_session import SweepSession
    from torch_grama.search.trial_run import TrialChoice


class SweepCallback(Callback):
    r"""Keeps the folders of trials and the screen up to date.

    Args:
        sweep (SweepSession): The sweep.
        obey (callable): Called between two steps; raises where the sweep is to stop.
    """

    def __init__(self, sweep: SweepSession, obey: Callable[[], None]) -> None:
        self._sweep = sweep
        self._obey = obey

    def __getstate__(self) -> dict[str, object]:
        # Ray stores its callbacks; a sweep is resumed from its own folders
        return {}

    def on_step_end(self, iteration: int, trials: Sequence[Trial], **info: object) -> None:
        r"""Called again and again."""
        self._obey()

    def on_trial_result(
        self,
        iteration: int,
        trials: Sequence[Trial],
        trial: Trial,
        result: Mapping[str, Any],
        **info: object,
    ) -> None:
        r"""Called when a trial tells how far it is."""
        if "step" in result:
            fraction = float(result["step"]) / self._sweep.last_step
            self._sweep.reporter.running(_name(trial), fraction, float(result["val"]))

    def on_trial_complete(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when a trial came to its end, or was stopped by the scheduler."""
        name = _name(trial)
        last = trial.last_result
        folder = self._sweep.trial(name)
        if not last.get("finished") and not last.get("failed"):
            # Ray may have lost its last word: the folder decides
            outcome = folder.read()
            if outcome is not None and outcome.state == "unfinished":
                folder.record_stop(float(last.get("val", math.nan)), int(last.get("step", 0)))
        self._sweep.settle(name)

    def on_trial_recover(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when the worker of a trial died and another goes on with it."""
        self._sweep.forgive(_name(trial), given_up=False)
        self._sweep.reporter.note(f"{_name(trial)}: its worker died; it goes on in another")

    def on_trial_error(
        self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: object
    ) -> None:
        r"""Called when Ray gives up a trial whose worker died."""
        name = _name(trial)
        if self._sweep.forgive(name, given_up=True):
            self._sweep.reporter.note(f"{name}: its worker died; it is run again later")
            return
        folder = self._sweep.trial(name)
        folder.begin(_choice(trial)["point"])
        text = ""
        with contextlib.suppress(OSError):  # Ray's note of it may be gone
            text = str(trial.get_error() or "")
        folder.record_failure(
            Failure(
                "worker died",
                "its process was ended from outside, such as for memory, again and again",
                traceback=text,
            )
        )
        self._sweep.settle(name)


def _choice(trial: Trial) -> TrialChoice:
    choice: TrialChoice = trial.config["trial"]
    return choice


def _name(trial: Trial) -> str:
    return _choice(trial)["name"]
