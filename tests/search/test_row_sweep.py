import pytest
import yaml

from torch_grama.reproduce.reproduction import plan_runs
from torch_grama.reproduce.suite import read_suite
from torch_grama.runs.run_folder import RunError
from torch_grama.search.space import Repeat, Space
from torch_grama.search.tune import narrow_space, tune_row

SPACE = {
    "base": {"model": {"name": "grama", "act": "relu"}, "optimizer.lr": 0.5},
    "space": {
        "model.backbone": {"grid": ["gcn", "gps"]},
        "model.seq_len": {"grid": [2, 3]},
        "model.dropout": {"grid": [0.0, 0.5]},
        "optimizer.lr": {"grid": [0.1, 0.01]},
    },
}
ROW = {
    "data.name": "transfer-ring-3",
    "data.fold": 0,
    "seed": 0,
    "model.num_layers": 3,
    "optimizer.lr": 0.003,
    "trainer.max_epochs": 2,
}


def space(**change: object) -> Space:
    content = {**SPACE, "base": {"model": {"name": "grama", "act": "relu"}}, **change}
    return Space.from_dict(content)


def test_a_row_keeps_its_model_and_the_space_wins_over_the_rest():
    narrowed = narrow_space(space(), {**ROW, "model.name": "grama", "model.backbone": "gps"})
    assert set(narrowed.domains) == {"model.seq_len", "model.dropout", "optimizer.lr"}
    assert narrowed.base["model.backbone"] == "gps"
    assert narrowed.base["trainer.max_epochs"] == 2
    assert narrowed.base["model.act"] == "relu"
    # neither a depth beside its parts, nor what is searched, nor what a sweep repeats over
    assert not {"model.num_layers", "optimizer.lr", "data.fold", "seed"} & narrowed.base.keys()


def test_another_model_is_not_asked_for_what_it_lacks():
    narrowed = narrow_space(space(), {**ROW, "model.name": "gcn"})
    assert set(narrowed.domains) == {"model.dropout", "optimizer.lr"}
    assert narrowed.base["model.name"] == "gcn"
    assert narrowed.base["model.num_layers"] == 3
    assert "model.backbone" not in narrowed.base


def test_nothing_is_searched_where_nothing_applies(tmp_path):
    only = space(space={"model.seq_len": {"grid": [2, 3]}})
    assert tune_row(tmp_path / "gcn", {**ROW, "model.name": "gcn"}, Repeat(), only) is None
    assert not (tmp_path / "gcn").exists()


def test_runs_that_were_not_tuned_are_not_mixed_in(tmp_path):
    (tmp_path / "fold0-seed0").mkdir()
    with pytest.raises(RunError, match="not tuned"):
        tune_row(tmp_path, {**ROW, "model.name": "gcn"}, Repeat(), space())


def test_settings_that_were_chosen_are_used(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    data = {"name": "transfer-ring-3", "metric": "mse"}
    (folder / "suite.yaml").write_text(
        yaml.safe_dump({"data": [data], "models": ["gcn"], "budgets": {"smoke": {"runs": 2}}})
    )
    suite = read_suite(folder)
    place = tmp_path / "runs" / "tiny" / "smoke" / "transfer-ring-3" / "gcn"
    place.mkdir(parents=True)
    (place / "best.yaml").write_text("model: {name: gcn, num_layers: 7}\nseed: 9\n")
    runs = plan_runs(suite, "smoke", tmp_path / "runs")
    assert [run.settings["model.num_layers"] for run in runs] == [7, 7]
    assert [run.settings["seed"] for run in runs] == [0, 1]
