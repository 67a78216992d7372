"""What Ray Tune tells ends up in the folders of the trials."""

import math
import pickle
from collections import Counter
from types import SimpleNamespace

import pytest

from torch_grama.search.sweep_session import SweepCallback, SweepSession
from torch_grama.search.trial import TrialFolder, name_trial


class Session:
    """As much of a session as a callback uses."""

    last_step = 20
    forgive = SweepSession.forgive

    def __init__(self, folder):
        self._deaths = Counter()
        self._lost = set()
        self.folder = folder
        self.settled = []
        self.told = []
        self.reporter = SimpleNamespace(
            running=lambda *words: self.told.append(words), note=self.told.append
        )

    def trial(self, name):
        return TrialFolder(self.folder / name, ["run"])

    def settle(self, name):
        self.settled.append((name, self.trial(name).read().state))


@pytest.fixture
def session(tmp_path) -> Session:
    return Session(tmp_path)


NAME = name_trial({"lr": 1})


def ray_trial(**last):
    return SimpleNamespace(
        config={"point": {"lr": 1}},
        last_result=last,
        get_error=lambda: ValueError("the worker died"),
    )


def call(session, event, trial, **more):
    callback = SweepCallback(session, lambda: None)
    getattr(callback, event)(iteration=1, trials=[], trial=trial, **more)


@pytest.mark.parametrize("last", [{"step": 7, "val": 0.25}, {}])
def test_a_trial_without_its_last_word_was_stopped(session, last):
    session.trial(NAME).begin({"lr": 1})
    call(session, "on_trial_complete", ray_trial(**last))
    outcome = session.trial(NAME).read()
    assert (outcome.state, outcome.epochs) == ("stopped", last.get("step", 0))
    assert outcome.value == pytest.approx(last.get("val", math.nan), nan_ok=True)
    assert session.settled == [(NAME, "stopped")]


def test_a_failure_that_was_noted_stays(session):
    session.trial(NAME).begin({"lr": 1})
    call(session, "on_trial_complete", ray_trial(failed=True))
    assert not (session.folder / NAME / "stopped.json").exists()


def test_a_trial_that_ray_gives_up_at_once_is_run_again(session):
    call(session, "on_trial_error", ray_trial())
    assert session.trial(NAME).read() is None
    assert session.settled == []
    assert session._lost == {NAME}
    assert "run again later" in session.told[0]


def test_a_worker_that_dies_too_often_is_a_failure(session):
    for _ in range(3):
        call(session, "on_trial_recover", ray_trial())
    assert session._lost == set()
    call(session, "on_trial_error", ray_trial())
    outcome = session.trial(NAME).read()
    assert outcome.point == {"lr": 1}
    assert outcome.failure.kind == "worker died"
    assert "the worker died" in outcome.failure.traceback
    assert session.settled == [(NAME, "failed")]


def test_progress_and_deaths_are_told(session):
    call(session, "on_trial_result", ray_trial(), result={"step": 5, "val": 0.5})
    call(session, "on_trial_result", ray_trial(), result={"failed": True})
    call(session, "on_trial_recover", ray_trial())
    assert session.told[0] == (NAME, 0.25, 0.5)
    assert "its worker died" in session.told[1]


def test_the_sweep_is_asked_to_stop_between_steps(session):
    def stop():
        raise KeyboardInterrupt

    callback = SweepCallback(session, stop)
    with pytest.raises(KeyboardInterrupt):
        callback.on_step_end(1, [])
    # Ray stores its callbacks, and what a session holds cannot be stored
    assert vars(pickle.loads(pickle.dumps(callback))) == {}
