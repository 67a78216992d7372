"""Schedulers, searchers and tables without a Ray."""

import argparse
import csv
import math
from types import SimpleNamespace

import pytest

from torch_grama.cli import sweep
from torch_grama.search.space import SchedulerSettings, Space
from torch_grama.search.sweep_result import SweepResult
from torch_grama.search.sweep_session import build_scheduler, list_milestones
from torch_grama.search.trial import Failure, TrialOutcome, name_trial

ASHA = SchedulerSettings("asha", grace_epochs=2, reduction=2)


def outcome(value, state="finished", **point):
    failure = Failure("ConfigError", "no") if state == "failed" else None
    return TrialOutcome(name_trial(point), point, state, {}, value, 3, failure)


def test_milestones_lie_a_factor_apart():
    assert list_milestones(ASHA, 16) == (2, 4, 8, 16)
    assert list_milestones(SchedulerSettings("asha", 5, 3), 50) == (5, 15, 45)
    assert list_milestones(SchedulerSettings(), 50) == ()
    assert list_milestones(SchedulerSettings("asha", 60, 3), 50) == ()


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_new_trials_are_judged_against_those_of_earlier_sessions(higher_is_better):
    sign = 1 if higher_is_better else -1
    histories = [(f"old{n}", [(s, sign * (s + n)) for s in (1, 2, 3, 4)]) for n in range(4)]
    scheduler = build_scheduler(ASHA, 16, higher_is_better, histories)
    new = SimpleNamespace(trial_id="new")
    scheduler.on_trial_add(None, new)

    def judge(step, value):
        return scheduler.on_trial_result(None, new, {"step": step, "val": sign * value})

    assert judge(1, -9) == "CONTINUE"  # before the first milestone
    assert judge(2, 5) == "CONTINUE"
    assert judge(3, 0) == "CONTINUE"
    assert judge(4, 5) == "STOP"  # the median at 4 is 5.5
    assert build_scheduler(ASHA, 16, higher_is_better).on_trial_add(None, new) is None


def test_a_scheduler_never_ends_a_trial_for_being_at_its_end():
    scheduler = build_scheduler(ASHA, 16, True)
    one = SimpleNamespace(trial_id="one")
    scheduler.on_trial_add(None, one)
    assert all(
        scheduler.on_trial_result(None, one, {"step": step, "val": 1.0}) == "CONTINUE"
        for step in range(1, 17)
    )


def optuna_space(**searcher):
    return Space.from_dict(
        {
            "space": {
                "lr": {"log_uniform": [1e-4, 1.0]},
                "act": {"choice": ["relu", None, [1, 2]]},
                "n": {"grid": [1, 2, 4]},
                "k": {"int": [2, 5]},
            },
            "searcher": {"name": "optuna", **searcher},
        }
    )


def test_optuna_proposes_points_of_the_space_and_learns():
    pytest.importorskip("optuna")
    from torch_grama.search.optuna_points import OptunaPoints

    points = OptunaPoints(optuna_space(), higher_is_better=False)
    errors = []
    for number in range(60):
        point = points.suggest(str(number))["point"]
        assert point["act"] in ("relu", None, [1, 2])
        assert point["n"] in (1, 2, 4)
        assert point["k"] in (2, 3, 4, 5)
        assert 1e-4 <= point["lr"] <= 1.0
        errors.append(abs(math.log10(point["lr"]) + 2) + abs(point["k"] - 3))
        if number % 7 == 6:  # some fail
            points.on_trial_complete(str(number), error=True)
        else:
            points.on_trial_complete(str(number), {"val": errors[-1]})
    assert sum(errors[-20:]) < 0.6 * sum(errors[:20])


def test_optuna_repeats_no_point_and_finishes_what_was_begun():
    pytest.importorskip("optuna")
    from torch_grama.search.optuna_points import OptunaPoints

    space = Space.from_dict({"space": {"a": {"grid": [1, 2, 3]}, "b": {"int": [0, 1]}}})
    known = [
        outcome(0.5, a=1, b=0),
        outcome(math.nan, "failed", a=2, b=0),
        outcome(math.nan, "unfinished", a=3, b=1),
        outcome(0.1, a=9, b=9),  # of another space
    ]
    points = OptunaPoints(space, True, known)
    proposed = []
    while isinstance(found := points.suggest(str(len(proposed))), dict):
        proposed.append(found["point"])
        points.on_trial_complete(str(len(proposed) - 1), {"val": 1.0})
    assert proposed[0] == {"a": 3, "b": 1}
    pairs = sorted((point["a"], point["b"]) for point in proposed)
    assert pairs == [(1, 1), (2, 1), (3, 0), (3, 1)]


def found(folder, *rows, higher_is_better=True):
    return SweepResult(folder, "accuracy", higher_is_better, rows, "run")


def test_rows_are_sorted_by_state_and_value(tmp_path):
    rows = [
        outcome(math.nan, "failed", lr=1),
        outcome(0.9, "stopped", lr=2),
        outcome(math.nan, lr=3),
        outcome(0.5, lr=4),
        outcome(0.7, lr=5),
        outcome(math.nan, "unfinished", lr=6),
    ]
    lower = found(tmp_path, *rows, higher_is_better=False)
    assert [row.point["lr"] for row in lower.outcomes][:3] == [4, 5, 3]
    rows[3:5] = []  # without a finished trial there is no best
    result = found(tmp_path, *rows)
    result.write()
    assert result.best is result.best_run is result.to_dict()["best"] is None
    assert not (tmp_path / "best.yaml").exists()
    order = [3, 2, 6, 1]
    assert [row.point["lr"] for row in result.outcomes] == order
    table = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert [row["rank"] for row in table] == ["1", "", "", ""]
    assert [row["lr"] for row in table] == [str(lr) for lr in order]
    assert table[-1]["message"] == "ConfigError: no"
    assert float(table[1]["val/accuracy"]) == 0.9
    assert result.to_dict()["trials"][3]["val"] is None
    assert found(tmp_path).best is None


def test_the_table_has_aligned_columns(tmp_path, capsys, monkeypatch):
    rows = [outcome(0.1 * n, **{"optimizer.lr": 10.0**-n, "x.lr": n}) for n in range(5)]
    rows.append(outcome(math.nan, "failed", act="[red]relu"))
    monkeypatch.setattr(sweep, "MOST_ROWS", 3)
    monkeypatch.setattr(SweepResult, "best", None)
    sweep._print(argparse.Namespace(json=False), found(tmp_path, *rows))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["optimizer.lr", "x.lr", "act"]
    assert len({line.index("0.0 s") for line in lines[:3]}) == 1
    assert lines[3].startswith("and 3 more in")
