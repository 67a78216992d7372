import pytest

from torch_grama.experiments.run import save_config
from torch_grama.experiments.settings import make_config
from torch_grama.reproduce.demo_runs import (
    FOLDER,
    LABELS,
    demo_references,
    distance_of,
    plan_demo,
)
from torch_grama.reproduce.suite import read_suite
from torch_grama.runs.run_folder import RunError, RunFolder


def test_every_model_runs_at_every_distance(tmp_path):
    runs = plan_demo(tmp_path, seed=3, all_models=True)
    assert {run.model for run in runs} == set(LABELS) == set(read_suite(FOLDER).models)
    distances = [distance_of(run.data) for run in runs]
    assert distances == sorted(distances, reverse=True)
    assert len(set(distances)) >= 4
    assert len(runs) == len(set(distances)) * len(LABELS)
    assert {run.seed for run in runs} == {3}
    for quick in (False, True):
        assert {run.model for run in plan_demo(tmp_path, quick)} == {"gcn", "grama-gcn"}


def test_all_runs_are_carries_of_the_same_length_and_width(tmp_path):
    runs = plan_demo(tmp_path, all_models=True)
    for name in ("trainer.max_epochs", "trainer.batch_size", "optimizer.lr", "schedule.name"):
        assert len({run.settings[name] for run in runs}) == 1
    assert {run.settings["model.hidden_channels"] for run in runs} == {32}
    assert all(run.data.endswith("-carry") for run in runs)


def test_depth_reaches_the_target(tmp_path):
    for run in plan_demo(tmp_path, all_models=True):
        if run.model != "gps-gcn":  # attends to all nodes at once
            assert run.settings["model.num_layers"] > distance_of(run.data)


def test_settings_can_be_used(tmp_path):
    for run in plan_demo(tmp_path, quick=True, all_models=True):
        config = make_config(run.settings)
        assert config.trainer.max_epochs == 2
        if run.model == "grama-gcn":
            assert config.model.options["num_blocks"] == 1
            assert config.model.options["gain"] == 1.0


def test_quick_is_a_part(tmp_path):
    quick = plan_demo(tmp_path, quick=True)
    assert {run.data for run in quick} < {run.data for run in plan_demo(tmp_path)}
    assert {run.folder for run in quick}.isdisjoint(r.folder for r in plan_demo(tmp_path))


def test_runs_of_other_settings_are_refused(tmp_path):
    run = plan_demo(tmp_path)[0]
    place = RunFolder(run.folder)
    place.make()
    save_config(make_config(run.settings), place.config)
    assert plan_demo(tmp_path)[0] == run
    save_config(make_config({**run.settings, "trainer.max_epochs": 30}), place.config)
    with pytest.raises(RunError, match="a run of other settings: remove it, or name another"):
        plan_demo(tmp_path)


def test_references_cost_a_twelfth():
    scores = demo_references(["transfer-line-3-carry"])
    assert scores["constant"]["transfer-line-3-carry"] == pytest.approx(1 / 12, abs=0.02)
