import json
import re
import shutil
import signal

import pytest
import yaml

from torch_grama.cli import main
from torch_grama.experiments.run import RunInterrupted, run_experiment
from torch_grama.reproduce import reproduction
from torch_grama.reproduce.reproduction import (
    plan_runs,
    run_in_processes,
    run_one_by_one,
    run_planned,
)
from torch_grama.reproduce.suite import SuiteError, read_suite
from torch_grama.training.progress import SilentReporter

SUITE = {
    "title": "Tiny",
    "about": "a test",
    "tables": ["transfer"],
    "repeat": "seed",
    "data": [
        {"name": "transfer-ring-3", "metric": "mse", "set": {"model.num_layers": 2}},
        {
            "name": "transfer-ring-3",
            "label": "carried",
            "metric": "mse",
            "options": {"variant": "carry"},
        },
    ],
    "models": ["grama-gcn", "grama-gcn-naive"],
    "defaults": {"model.hidden_channels": 4, "trainer": {"batch_size": 512}},
    "budgets": {
        "smoke": {
            "runs": 1,
            "data": ["transfer-ring-3"],
            "set": {"trainer.max_epochs": 1, "model.hidden_channels": 3},
        },
        "short": {"runs": 2, "set": {"trainer.max_epochs": 2}},
    },
}


@pytest.fixture
def configs(tmp_path):
    folder = tmp_path / "configs" / "tiny"
    folder.mkdir(parents=True)
    (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    return tmp_path / "configs"


@pytest.fixture
def suite(configs):
    return read_suite(configs / "tiny")


def test_the_plan_has_a_run_for_each_cell_and_seed(suite, tmp_path):
    runs = plan_runs(suite, "short", tmp_path)
    assert len(runs) == 2 * 2 * 2
    assert len({run.folder for run in runs}) == 8
    assert {(run.fold, run.seed) for run in runs} == {(0, 0), (0, 1)}
    first = runs[0].settings
    assert first["model.num_layers"] == 2
    assert first["trainer.max_epochs"] == 2
    carried = next(run for run in runs if run.data == "carried").settings
    assert carried["data.options.variant"] == "carry"
    assert "model.num_layers" not in carried


def test_the_budget_chooses_data_and_sizes(suite, tmp_path):
    runs = plan_runs(suite, "smoke", tmp_path)
    assert {run.data for run in runs} == {"transfer-ring-3"}
    assert runs[0].settings["model.hidden_channels"] == 3
    assert len(plan_runs(suite, "smoke", tmp_path, ["grama-gcn"], ["carried"], [3, 5])) == 2
    assert plan_runs(suite, "smoke", tmp_path, absent=["transfer-ring-3"]) == []


def test_a_file_sets_a_row_and_keeps_the_size_of_its_model(suite, tmp_path):
    (suite.folder / "transfer-ring-3-grama-gcn.yaml").write_text(
        "model: {name: grama, seq_len: 3, hidden_channels: 5}\noptimizer: {lr: 0.5}\n"
    )
    run = plan_runs(suite, "smoke", tmp_path)[0]
    assert run.settings["model.hidden_channels"] == 5
    assert run.settings["optimizer.lr"] == 0.5
    assert run.settings["trainer.max_epochs"] == 1
    assert "trainer.batch_size" not in run.settings


def test_more_repeats_than_folds_take_other_seeds(suite, tmp_path):
    folded = read_suite(suite.folder).__class__(**{**suite.__dict__, "repeat": "fold"})
    runs = plan_runs(
        folded, "short", tmp_path, ["grama-gcn"], ["carried"], range(5), num_folds={"carried": 2}
    )
    assert [(run.fold, run.seed) for run in runs] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]


def test_unknown_budget_and_row(suite, tmp_path):
    with pytest.raises(SuiteError, match=r"one of smoke, short \(got 'full'\)"):
        plan_runs(suite, "full", tmp_path)
    with pytest.raises(ValueError, match="`grama models`"):
        plan_runs(suite, "smoke", tmp_path, ["gcm"])


@pytest.mark.slow
@pytest.mark.usefixtures("small_transfer")
def test_runs_are_done_once_and_again_when_deleted(configs, tmp_path, capsys):
    runs = tmp_path / "runs"
    command = ["reproduce", "tiny", "--configs", str(configs), "--runs", str(runs), "--quiet"]
    assert main(command) == 0
    first = capsys.readouterr().out
    results = sorted(runs.rglob("result.json"))
    assert len(results) == 2
    stamps = [path.stat().st_mtime_ns for path in results]
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert [path.stat().st_mtime_ns for path in results] == stamps
    shutil.rmtree(results[0].parent)
    assert main(command) == 0
    assert capsys.readouterr().out == first  # the same seed gives the same number
    assert results[1].stat().st_mtime_ns == stamps[1]
    assert results[0].is_file()
    assert main([*command, "--show", "--format", "csv"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"tiny,transfer-ring-3,grama-gcn,grama-gcn,mse,\d\.\d+,,1,smoke", table)
    assert "tiny,carried,grama-gcn,grama-gcn,mse,,,,,,,,,,,not run" in table


@pytest.mark.slow
@pytest.mark.usefixtures("small_transfer")
def test_a_failure_is_recorded_and_the_others_go_on(suite, tmp_path):
    (suite.folder / "transfer-ring-3-grama-gcn.yaml").write_text(
        "model: {name: grama, seq_len: 3, ar_order: 7}\n"
    )
    runs = plan_runs(suite, "smoke", tmp_path)
    (_, failed), (_, finished) = run_one_by_one(runs, "quiet")
    assert "ar_order" in str(failed)
    assert finished.epochs == 1
    note = json.loads((runs[0].folder.parent / "fold0-seed0.failure.json").read_text())
    assert "ar_order" in note["error"]
    (suite.folder / "transfer-ring-3-grama-gcn.yaml").unlink()
    run_planned(plan_runs(suite, "smoke", tmp_path)[0])
    assert not (runs[0].folder.parent / "fold0-seed0.failure.json").exists()


def test_a_run_that_was_asked_to_stop_has_not_failed(suite, tmp_path, monkeypatch):
    def stop(config, folder, **options):
        raise RunInterrupted(folder, 143)

    monkeypatch.setattr(reproduction, "run_experiment", stop)
    run = plan_runs(suite, "smoke", tmp_path)[0]
    with pytest.raises(RunInterrupted):
        run_planned(run)
    assert not (run.folder.parent / "fold0-seed0.failure.json").exists()


class InterruptedInTheLastEpoch(SilentReporter):
    """Sends the signal of Ctrl-C when there is no epoch left that it could end."""

    def epoch(self, report):
        if report.epoch == report.max_epochs:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.usefixtures("small_transfer")
def test_a_signal_in_the_last_epoch_of_a_run_ends_all(configs, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        return run_experiment(*arguments, **{**options, "report": InterruptedInTheLastEpoch()})

    runs = tmp_path / "runs"
    command = ["reproduce", "tiny", "--configs", str(configs), "--runs", str(runs), "--quiet"]
    monkeypatch.setattr(reproduction, "run_experiment", interrupted)
    assert main(command) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "grama: interrupted; the same command goes on.\n")
    assert len(list(runs.rglob("config.yaml"))) == 1  # the second was not begun
    assert len(list(runs.rglob("result.json"))) == 1  # the first had come to its end
    monkeypatch.undo()
    assert main(command) == 0
    assert len(list(runs.rglob("result.json"))) == 2


@pytest.mark.slow
def test_processes_give_the_same_numbers(suite, tmp_path):
    alone = plan_runs(suite, "smoke", tmp_path / "a")
    beside = plan_runs(suite, "smoke", tmp_path / "b")
    one = {run.model: result.test for run, result in run_one_by_one(alone, "quiet")}
    many = {run.model: result.test for run, result in run_in_processes(beside, 2)}
    assert one == many


def test_lists_and_mistakes_of_the_command(configs, capsys):
    assert main(["reproduce", "list", "--configs", str(configs)]) == 0
    assert capsys.readouterr().out == "tiny  a test\n"
    assert main(["reproduce", "list", "--json", "--configs", str(configs)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["budgets"] == {"smoke": 1, "short": 2}
    assert main(["reproduce", "tny", "--configs", str(configs)]) == 2
    assert "one of 'tiny'" in capsys.readouterr().err
    assert main(["reproduce", "list", "--configs", str(configs / "absent")]) == 2
    assert "--configs" in capsys.readouterr().err
