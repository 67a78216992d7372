"""``grama train`` and what follows it, called as a user would."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sample_data import write_graph_file, write_node_folder

from torch_grama.cli import main
from torch_grama.experiments import make_config
from torch_grama.experiments import run as where
from torch_grama.experiments.folds import run_folds
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError

SHORT = ["--trainer.max_epochs=3", "--model.hidden_channels=8", "--trainer.accelerator=cpu"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run on own data, with its data beside it."""
    folder = tmp_path_factory.mktemp("trained")
    data = write_node_folder(folder / "data", num_nodes=40)
    words = ["--data", str(data), "--run", str(folder / "run"), "--quiet", *SHORT]
    assert main(["train", *words]) == 0
    return folder


@pytest.fixture
def unfinished(trained, tmp_path):
    """A copy of it that has no result yet, with data of its own, as ``run`` and ``data``."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(trained), str(tmp_path)))
    (tmp_path / "run" / "result.json").unlink()
    return tmp_path / "data"


def test_three_commands_from_files_to_predictions(trained, capsys):
    data = trained / "data"
    assert main(["data", "check", str(data)]) == 0
    assert main(["train", "--data", str(data), *SHORT]) == 0
    captured = capsys.readouterr()
    first = next(line for line in captured.err.splitlines() if line.startswith(f"{data}: "))
    assert re.search(r"grama \(gatedgcn\), [\d,]+ parameters, on cpu$", first)
    assert "test accuracy" in captured.out
    (run,) = Path("runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-data-grama", run.name)
    assert re.search(rf"^run +{run}$", captured.out, re.MULTILINE)
    # the same seed gives the same run
    first, second = (Result.load(path / "result.json") for path in (trained / "run", run))
    assert (first.val, first.losses) == (second.val, second.losses)
    assert main(["predict", str(run)]) == 0
    lines = Path("predictions.csv").read_text().splitlines()
    assert lines[0] == "node,prediction,probability left,probability right"
    assert len(lines) == 41
    name, word, left, right = lines[1].split(",")
    assert (name, word) == ("n0", "left" if float(left) > float(right) else "right")
    assert float(left) + float(right) == pytest.approx(1, abs=1e-5)


def test_a_run_folder_holds_everything(trained):
    run = trained / "run"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["trainer"]["max_epochs"] == 3
    assert config["model"]["backbone"] == "gatedgcn"
    assert "torch" in config["environment"]["versions"]
    result = Result.load(run / "result.json")
    assert (result.metric, result.epochs, result.seed, result.fold) == ("accuracy", 3, 0, 0)
    assert 0 <= result.test <= 1
    header, *rows = (run / "metrics.csv").read_text().splitlines()
    assert header.startswith("epoch,step,train/loss,val/loss,val/accuracy")
    assert len(rows) == 3
    assert {path.name for path in (run / "checkpoints").iterdir()} >= {"last.ckpt", "best.ckpt"}
    assert any((run / "tensorboard").iterdir())


def test_evaluation_agrees_with_the_result(trained, capsys):
    result = Result.load(trained / "run" / "result.json")
    for split, expected in (("test", result.test), ("val", result.val)):
        assert main(["evaluate", str(trained / "run"), "--split", split, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["accuracy"] == expected
    assert main(["evaluate", str(trained / "run")]) == 0
    assert f"test accuracy  {result.test:.6g}" in capsys.readouterr().out


@pytest.mark.filterwarnings("default:The validation")
@pytest.mark.parametrize("is_off", [False, True])
def test_weights_of_bf16_are_judged_as_they_are_used(trained, capsys, monkeypatch, is_off):
    train = where.fit
    if is_off:
        monkeypatch.setattr(where, "fit", lambda *a, **k: replace(train(*a, **k), best_value=9.0))
    words = ["--data", str(trained / "data"), "--run", "run", "--trainer.precision=bf16", *SHORT]
    assert main(["train", *words]) == 0
    told = "grama: warning: The validation accuracy is 9 in bf16, in which the model was trained, "
    assert (told in capsys.readouterr().err) is is_off
    assert main(["evaluate", "run", "--split", "val", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert Result.load(Path("run/result.json")).val == measured["accuracy"]


def test_a_finished_run_is_not_run_again(trained, capsys):
    before = (trained / "run" / "result.json").stat().st_mtime_ns
    assert main(["train", "--resume", str(trained / "run")]) == 0
    captured = capsys.readouterr()
    assert "is finished: there is nothing to do" in captured.err
    assert (trained / "run" / "result.json").stat().st_mtime_ns == before
    assert main(["train", "--resume", str(trained / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epochs"] == 3
    longer = ["train", "--resume", str(trained / "run"), "--trainer.max_epochs"]
    assert main([*longer, "3"]) == 0
    assert main([*longer, "9"]) == 2
    assert "'trainer.max_epochs' cannot be changed: start a new run" in capsys.readouterr().err


def test_an_unfinished_run_is_finished(trained, unfinished, capsys):
    assert main(["info", "run"]) == 0
    assert "Finish it with `grama train --resume" in capsys.readouterr().out
    assert main(["train", "--resume", "run", "--quiet"]) == 0
    first, second = (Result.load(f / "run" / "result.json") for f in (trained, Path()))
    assert (second.val, second.test, second.best_epoch) == (first.val, first.test, first.best_epoch)


def test_test_part_may_stay_unread_and_another_seed_is_another_run(trained, capsys):
    words = ["--no-test", "--json", "--run", "x", "--seed", "5", *SHORT]
    assert main(["train", "--data", str(trained / "data"), *words]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["test"] is None
    assert captured.err == ""
    assert yaml.safe_load(Path("x/config.yaml").read_text())["test"] is False
    first, other = (f / "metrics.csv" for f in (trained / "run", Path("x")))
    losses = [path.read_text().splitlines()[1].split(",")[2] for path in (first, other)]
    assert losses[0] != losses[1]


def test_print_config_is_a_file_that_train_takes(trained, capsys):
    words = ["train", "--data", str(trained / "data"), *SHORT]
    assert main([*words, "--print-config", "--run", "never"]) == 0
    text = capsys.readouterr().out
    Path("my.yaml").write_text(text)
    assert not Path("never").exists()
    assert main(["train", "--config", "my.yaml", "--print_config", "--seed", "9"]) == 0
    changed = yaml.safe_load(capsys.readouterr().out)
    assert changed == yaml.safe_load(text) | {"seed": 9}


def test_options_of_the_data_are_as_for_data_check(trained, capsys):
    words = ["train", "--data", str(trained / "data"), "--print-config"]
    assert main([*words, "-o", "ignore=[height]", "-o", "directed=true"]) == 0
    short = yaml.safe_load(capsys.readouterr().out)
    assert short["data"]["options"] == {"ignore": ["height"], "directed": "true"}
    long = ["--data.options.ignore", "[height]", "--data.options.directed", "true"]
    assert main([*words, *long]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == short


def test_a_graph_task(tmp_path, capsys):
    path = write_graph_file(tmp_path / "rings.jsonl")
    assert main(["train", "--data", str(path), "--run", "g", "--quiet", *SHORT]) == 0
    assert main(["predict", "g", "--out", "out/p.json"]) == 0
    assert "40 graphs predicted" in capsys.readouterr().out
    rows = json.loads(Path("out/p.json").read_text())
    assert len(rows) == 40
    assert set(rows[0]) == {"graph", "prediction", "probability line", "probability ring"}


def test_folds_one_after_the_other(trained, tmp_path, capsys):
    words = ["train", "--data", str(trained / "data"), "--run", "f", "--quiet", *SHORT]
    assert main([*words, "--folds", "all"]) == 0
    out = capsys.readouterr().out
    assert "fold 0  " in out
    assert (tmp_path / "f" / "fold-0" / "result.json").is_file()
    summary = json.loads((tmp_path / "f" / "summary.json").read_text())
    assert summary["val"] == summary["results"][0]["val"]
    assert main(["train", "--resume", "f", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["val"] == summary["val"]
    assert main([*words, "--folds", "all"]) == 2
    assert "'f' holds runs of several folds: finish them with `grama" in capsys.readouterr().err
    assert main(["train", "--resume", "f", "--trainer.max_epochs", "9"]) == 2
    error = capsys.readouterr().err
    assert "'trainer.max_epochs' cannot be changed with '--resume': several folds" in error
    assert "except" not in error


def test_info_of_a_finished_run(trained, capsys):
    assert main(["info", str(trained / "run")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"state +finished", out)
    assert re.search(r"^hardware .*, \d+ cores?, \d+ threads?$", out, re.M)
    assert main(["info", str(trained / "run"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["config"]["trainer"]["max_epochs"] == 3
    assert facts["parameters"] == Result.load(trained / "run" / "result.json").parameters


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "nowhere"], "There is no data set 'nowhere', .* that name. `grama data"),
        (["--data", "./nowhere"], "There is no 'nowhere'|There is no './nowhere'"),
        ([], "Expected a data set: give `--data`"),
        (["--data", "cora", "--model", "gramma"], "Expected 'model' to be one of the"),
        (["--dta", "cora"], r"There is no setting 'dta' .*did you mean 'data'"),
        (["--config", "none.yaml"], "'none.yaml' cannot be read"),
        (["--data", "transfer-line-3", "--data.fold", "7"], "Expected 'data.fold' to be 0"),
        (["--data", "transfer-line-3", "--folds", "0,9"], "Expected '--folds' between 0 and 0"),
        (["--data", "transfer-line-3", "--folds", "x"], "'--folds' to be 'all' or numbers"),
        (["--data", "transfer-line-3", "--model.seq_len", "0"], "'seq_len' to be at least 1"),
        (["--data", "transfer-line-3", "--task.loss", "bce"], "Expected a 'loss' for regression"),
        (["--data", "transfer-line-3", "--run", "taken"], "is not empty and holds no run"),
        (["--data", "transfer-line-3", "--trainer.accelerator", "cuda"], "Expected a device for"),
        (["--resume", "missing"], "There is no run 'missing'"),
        (["--resume", "taken", "--seed", "3"], "'seed' cannot be changed with '--resume'"),
        (["--resume", "taken", "--time-budget", "9m"], "'time-budget' cannot be changed with"),
        (["--resume", "taken", "--print-config"], "'--print-config' does not go with '--resume'"),
        (["--data", "cora", "--model", "gcn", "--time-budget", "9m"], "Expected no '--time-bud"),
    ],
)
def test_mistakes_are_one_sentence(words, message, capsys):
    Path("taken").mkdir()
    Path("taken/thesis.tex").write_text("mine")
    assert main(["train", "--quiet", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert re.search(message, captured.err), captured.err
    assert captured.out == ""
    assert not list(Path().glob("runs/*/config.yaml"))


def test_a_folder_named_like_a_data_set_is_told(capsys):
    Path("transfer-line-3").mkdir()
    assert main(["train", "--data", "transfer-line-3", "--model", "gcn", *SHORT]) == 0
    assert "'./transfer-line-3' means the files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "reads"), [("gcn", False), ("grama-gcn", False), ("grama", True)]
)
def test_features_of_edges_that_a_model_does_not_read_are_told(tmp_path, capsys, model, reads):
    data = write_node_folder(tmp_path / "data", num_nodes=30, weights=True)
    table = data / "edges.csv"
    table.write_text(table.read_text().replace("weight", "length"))
    assert main(["train", "--data", "data", "--model", model, "--run", "run", *SHORT]) == 0
    told = f"The model '{model}' does not read features of edges" in capsys.readouterr().err
    assert told != reads


@pytest.mark.filterwarnings("ignore:'run' is unfinished")
def test_changed_or_deleted_data_is_noticed(unfinished, capsys):
    text = (unfinished / "nodes.csv").read_text()
    (unfinished / "nodes.csv").write_text(text.replace("height", "depth"))
    assert main(["train", "--resume", "run"]) == 2
    assert "is not what 'run' was started with" in capsys.readouterr().err
    assert main(["evaluate", "run"]) == 2
    assert "is not what the run 'run' was trained on" in capsys.readouterr().err
    shutil.rmtree(unfinished)
    for words in (["train", "--resume", "run"], ["evaluate", "run"], ["predict", "run"]):
        assert main(words) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert "There is no '" in captured.err
    assert main(["info", "run"]) == 0


def test_help_lists_settings_of_the_chosen_model(capsys):
    assert main(["train", "--help-all", "--model", "grama"]) == 0
    out = capsys.readouterr().out
    assert "--model.backbone" in out
    assert "--trainer.max_epochs" in out
    for command in ("train", "predict", "evaluate", "info", "export", "models"):
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert "examples:" in capsys.readouterr().out


def test_the_summary_of_folds_is_json_where_a_value_is_no_number(tmp_path, monkeypatch):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    config = make_config({"data": "transfer-line-3"})
    result = Result("line", "gcn", "mse", False, math.nan, None, -1, 3, 0, 0, 100, 1.0)
    monkeypatch.setattr("torch_grama.experiments.folds.run_experiment", lambda *_, **__: result)
    run_folds(config, tmp_path / "runs", [0])
    written = json.loads((tmp_path / "runs" / "summary.json").read_text(), parse_constant=refuse)
    assert written["val"] == "nan"
    monkeypatch.setattr("torch_grama.experiments.folds.hash_data", lambda *_: "other values")
    with pytest.raises(RunError, match=r"data is not what '.*runs' was started with"):
        run_folds(config, tmp_path / "runs", [0])
