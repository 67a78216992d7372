"""Files of trials that were damaged: the sweep goes on, and no number of another trial changes."""

import random
import shutil
from dataclasses import replace

import pytest
from damage import Tally, counts, damage_file
from sweep_cases import small_base, write_heights

from torch_grama.search.space import Space
from torch_grama.search.trial import (
    FAILURE,
    STOPPED,
    TRIAL,
    Failure,
    TrialFolder,
    TrialPlan,
    list_trials,
    run_trial,
)

NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> TrialPlan:
    folder = tmp_path_factory.mktemp("sweep")
    base = small_base(write_heights(folder / "data"), epochs=2)
    space = Space.from_dict({"base": base, "space": {"optimizer.lr": {"grid": [0.1]}}})
    plan = TrialPlan(folder / "trials", space.base, space.repeat.runs(), span=2)
    for name in NAMES:
        run_trial(plan, name, {"optimizer.lr": 0.1}, lambda report: None)
    return plan


@counts(small=20, full=600)
def test_damage_of_one_trial_stops_no_sweep(plan, tmp_path, tries):
    tally = Tally("damaged sweeps")
    whole = {trial.name: trial.value for trial in list_trials(plan.folder, list(plan.runs))}
    assert set(whole) == set(NAMES)
    for seed in range(tries):
        generator = random.Random(seed)
        folder = tmp_path / str(seed)
        shutil.copytree(plan.folder, folder)
        trial = TrialFolder(folder / "second", list(plan.runs))
        trial.record_failure(Failure("error", "a text", "seed-0", ""))
        trial.record_stop(0.5, 1)
        (run,) = trial.runs.values()
        notes = [trial.path / name for name in (TRIAL, FAILURE, STOPPED)]
        victim = generator.choice([*notes, run.result, run.metrics, run.config])
        damage_file(victim, generator)
        with tally.one(f"{victim.name}, seed {seed}"):
            found = {one.name: one.value for one in list_trials(folder, list(plan.runs))}
            assert {name: found[name] for name in ("first", "third")} == {
                name: whole[name] for name in ("first", "third")
            }
            trial.history("mae", False, 2)
            copy = replace(plan, folder=folder)
            run_trial(copy, "second", {"optimizer.lr": 0.1}, lambda report: None)
        shutil.rmtree(folder)
    tally.close()
