"""Trials without Ray: names, what a folder tells, and what a worker does."""

import json
import math

import pytest
from sweep_cases import small_base, write_heights

from torch_grama.runs.result import Result
from torch_grama.search.space import Space
from torch_grama.search.trial import (
    Failure,
    TrialFolder,
    TrialPlan,
    list_trials,
    name_trial,
    run_trial,
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> TrialPlan:
    folder = tmp_path_factory.mktemp("plan")
    space = Space.from_dict(
        {
            "base": small_base(write_heights(folder / "data"), epochs=5),
            "space": {"optimizer.lr": {"grid": [0.1]}},
            "repeat": {"seeds": [0, 1]},
        }
    )
    runs, milestones = space.repeat.runs(), (2, 4, 8)
    return TrialPlan(folder / "trials", space.base, runs, 5, milestones, interval=99)


@pytest.fixture(scope="module")
def told(plan) -> list[dict[str, object]]:
    """What a worker said of the trial 'good'."""
    told = []
    run_trial(plan, "good", {"optimizer.lr": 0.1}, told.append)
    return told


def test_names_are_readable_safe_and_depend_on_the_values_alone():
    point = {"optimizer.lr": 0.001, "model.act": "relu"}
    assert name_trial(point).startswith("lr=0.001,act=relu-")
    assert name_trial(dict(reversed(point.items())))[-8:] == name_trial(point)[-8:]
    assert name_trial({"a": 1})[-8:] != name_trial({"a": 1.5})[-8:]
    assert name_trial({"a.x": 1, "b.x": 2}).startswith("a.x=1,b.x=2-")
    name = name_trial({"data.options.label": "../a b/c" * 30, "x": [1, 2], "y": None})
    assert len(name) < 120
    assert not {"/", " "} & set(name)
    assert not name.startswith(".")


def test_a_worker_reports_at_milestones_and_at_the_end_and_once(plan, told):
    steps = [report["step"] for report in told]
    # the first epoch of each run, the milestones, and the end
    assert steps == [1, 2, 4, 6, 8, 10]
    trial = TrialFolder(plan.folder / "good", list(plan.runs))
    outcome = trial.read()
    assert outcome.state == "finished"
    assert told[-1] == {"step": 10, "val": outcome.value, "finished": True}
    assert [result.seed for result in outcome.results.values()] == [0, 1]
    assert all(result.test is None for result in outcome.results.values())
    # what is told is the mean over the runs of the best so far, as the files have it
    history = trial.history("mae", False, 5)
    assert [step for step, _ in history] == list(range(1, 11))
    by_step = dict(history)
    for report in told:
        assert report["val"] == pytest.approx(by_step[report["step"]], rel=1e-5)
    # a finished trial is not run again
    path = plan.folder / "good" / "seed-0" / "result.json"
    before, again = path.stat().st_mtime_ns, []
    run_trial(plan, "good", {"optimizer.lr": 0.1}, again.append)
    assert (path.stat().st_mtime_ns, again) == (before, told[-1:])


def test_a_trial_that_is_ended_goes_on_to_the_same_numbers(plan, told):
    def stop(result):
        if result["step"] == 8:
            raise SystemExit

    point = {"optimizer.lr": 0.1}
    with pytest.raises(SystemExit):
        run_trial(plan, "ended", point, stop)
    outcome = TrialFolder(plan.folder / "ended", list(plan.runs)).read()
    assert outcome.state == "unfinished"
    assert set(outcome.results) == {"seed-0"}
    # a run that died before it wrote its settings is begun anew
    (plan.folder / "ended" / "seed-1" / "config.yaml").unlink()
    run_trial(plan, "ended", point, lambda result: None)
    ended, whole = (
        Result.load(plan.folder / name / "seed-1" / "result.json") for name in ("ended", "good")
    )
    assert ended.val == whole.val


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError("too much"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError"),
    ],
)
def test_an_error_is_noted_and_raises_nothing(plan, monkeypatch, error, kind):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("torch_grama.search.trial.run_experiment", fail)
    told = []
    name = f"failed-{kind}-{type(error).__name__}"
    run_trial(plan, name, {"optimizer.lr": 0.1}, told.append)
    assert told == [{"failed": True}]
    outcome = TrialFolder(plan.folder / name, list(plan.runs)).read()
    assert outcome.state == "failed"
    assert (outcome.failure.kind, outcome.failure.run) == (kind, "seed-0")
    assert str(error) in outcome.failure.message
    assert math.isnan(outcome.value)


def test_what_a_folder_tells(tmp_path):
    trial = TrialFolder(tmp_path / "one", ["run"])
    assert trial.read() is None
    trial.begin({"a": [1, "x"]})
    outcome = trial.read()
    assert (outcome.state, outcome.point) == ("unfinished", {"a": [1, "x"]})
    assert not outcome.is_settled
    trial.record_stop(0.25, 7)
    outcome = trial.read()
    assert (outcome.state, outcome.value, outcome.epochs) == ("stopped", 0.25, 7)
    trial.record_failure(Failure("worker died", "twice"))
    assert str(trial.read().failure) == "worker died: twice"
    trial.forget_failure()
    assert trial.read().state == "stopped"
    # files of others, and damaged ones, are passed by
    (tmp_path / "two").mkdir()
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "trial.json").write_text('{"settings": ')
    (tmp_path / "file").write_text("")
    assert [found.name for found in list_trials(tmp_path, ["run"])] == ["one"]
    assert list_trials(tmp_path / "nowhere", ["run"]) == []


def test_a_damaged_result_counts_as_unfinished(tmp_path):
    trial = TrialFolder(tmp_path / "one", ["run"])
    trial.begin({})
    run = tmp_path / "one" / "run"
    run.mkdir()
    (run / "config.yaml").write_text("seed: 0\n")
    (run / "result.json").write_text(json.dumps({"val": 1}))
    assert trial.read().state == "unfinished"
