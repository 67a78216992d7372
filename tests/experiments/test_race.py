"""The model that is chosen when none is named: seeded, resumable, no setting of users changed."""

import itertools
import json
import os
import re

import pytest
import torch
from sample_data import write_node_folder
from torch_geometric.data import Data

from torch_grama.cli import main
from torch_grama.datasets import load
from torch_grama.experiments import make_config, race
from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.race import is_racing, read_race, run_race, ways_to_regularise
from torch_grama.experiments.run import RunInterrupted, build_task
from torch_grama.runs.run_folder import RunError

MODELS = ("gcn", "grama-gcn")
SETTINGS = {"data.name": "data", "trainer.accelerator": "cpu", "trainer.max_epochs": 6}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Own files in the current folder, and a race of two models that takes a second or two."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(race, "MODELS", MODELS)
    monkeypatch.setattr(race, "_MOST_SEEDS", 1)
    write_node_folder(tmp_path / "data", num_nodes=40)
    return load("./data")


@pytest.fixture
def two_ways(data, monkeypatch):
    """Each model takes part with the first two ways alone."""
    monkeypatch.setattr(race, "ways_to_regularise", lambda data: ways_to_regularise(data)[:2])


def heats_of(folder):
    return json.loads((folder / "race.json").read_text())["heats"]


def interrupt_heat(monkeypatch, number):
    experiment, heats = race.run_experiment, itertools.count(1)

    def run(*args, **options):
        if next(heats) == number:
            raise RunInterrupted(args[1], 130)
        return experiment(*args, **options)

    monkeypatch.setattr(race, "run_experiment", run)


def test_train_without_a_model_races_and_trains_the_winner(data, tmp_path, capsys):
    words = ["--trainer.max_epochs", "6", "--trainer.accelerator", "cpu", "--optimizer.lr", "0.02"]
    assert main(["train", "--data", "data", "--run", "run", *words]) == 0
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    for start in ("race: ", "won: ", "behind: "):
        assert any(line.startswith(start) for line in lines)
    assert any(re.match(r"  gcn \(.*\): [0-9.]+ after 6 epochs$", line) for line in lines)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    winner = json.loads((tmp_path / "run" / "race.json").read_text())["winner"]
    assert result["model"] == winner["model.name"] in MODELS
    assert result["epochs"] <= 6
    assert "lr: 0.02" in (tmp_path / "run" / "config.yaml").read_text()
    assert not (tmp_path / "run" / "race").exists()
    assert "trivial answer" in captured.out


@pytest.mark.usefixtures("two_ways")
def test_a_race_that_was_stopped_ends_as_one_that_was_not(data, tmp_path, monkeypatch):
    whole = run_race(SETTINGS, data, tmp_path / "whole", 60.0)
    plan = json.loads((tmp_path / "whole" / "race.json").read_text())
    interrupt_heat(monkeypatch, 4)
    with pytest.raises(RunInterrupted, match=r"--resume .*half") as stopped:
        run_race(SETTINGS, data, tmp_path / "half", 60.0, folds="0")
    assert (stopped.value.exit_code, is_racing(tmp_path / "half")) == (130, True)
    assert read_race(tmp_path / "half")["folds"] == "0"
    # the time an epoch takes is never twice the same; all else is
    path = tmp_path / "half" / "race" / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"speeds": plan["speeds"]}))
    x = data.graphs[0].x
    data.graphs[0].x = -7 * x
    with pytest.raises(RunError, match=r"data is not what '.*half' was started with"):
        run_race(SETTINGS, data, tmp_path / "half", 60.0)
    data.graphs[0].x = x
    again = run_race(SETTINGS, data, tmp_path / "half", 60.0)
    assert again.settings == whole.settings
    assert heats_of(tmp_path / "half") == heats_of(tmp_path / "whole")


@pytest.mark.usefixtures("two_ways")
def test_a_model_that_fails_is_left_out_and_all_of_them_are_an_error(data, tmp_path, monkeypatch):
    experiment = race.run_experiment

    def fail(config, *args, **options):
        if config.model.name in failing:
            raise ConfigError("it cannot be")
        return experiment(config, *args, **options)

    monkeypatch.setattr(race, "run_experiment", fail)
    failing = {"gcn"}
    assert run_race(SETTINGS, data, tmp_path / "a", 60.0).settings["model.name"] == "grama-gcn"
    failing = set(MODELS)
    with pytest.raises(ConfigError, match="it cannot be"):
        run_race(SETTINGS, data, tmp_path / "b", 60.0)


def test_a_slow_model_does_not_take_part(data, tmp_path, monkeypatch):
    read = race.read_metrics

    def slow(path):
        rows = read(path)
        factor = 1e6 if "grama-gcn" in str(path) else 1.0
        return [row | {"seconds": str(float(row["seconds"]) * factor)} for row in rows]

    monkeypatch.setattr(race, "read_metrics", slow)
    outcome = run_race(SETTINGS, data, tmp_path / "run", 60.0)
    assert outcome.settings["model.name"] == "gcn"
    assert "too slow for the time: grama-gcn" in outcome.lines[0]


@pytest.mark.parametrize(("seconds", "winner"), [(0.05, "grama-gcn"), (0.2, "gcn")])
def test_time_that_is_left_is_for_a_final(data, tmp_path, monkeypatch, seconds, winner):
    """One model is ahead at first, the other after 250 of 300 epochs: only a final tells."""

    def heat(self, entrant, epochs, seed=0):
        usual = 0.0 if entrant.changes else {"gcn": 0.8, "grama-gcn": 0.79}[entrant.model]
        late = 0.9 if entrant == race.Entrant("grama-gcn") else usual
        values = [late if epoch >= 250 else usual for epoch in range(epochs)]
        return [
            {"seconds": str(seconds * (epoch + 1)), f"val/{data.metric.name}": str(value)}
            for epoch, value in enumerate(values)
        ]

    monkeypatch.setattr(race._Race, "_heat", heat)
    settings = SETTINGS | {"trainer.max_epochs": 300}
    assert run_race(settings, data, tmp_path / "run", 120.0).settings["model.name"] == winner


def test_what_the_user_set_is_no_part_of_the_race(data):
    for settings in ({"optimizer.lr": 0.1}, {"model.dropout": 0.7, "optimizer.name": "sgd"}):
        begun = {"settings": settings, "budget": 1.0}
        groups = race._Race(begun, data, None, print)._entrants(["gcn"])
        assert len({str(one) for group in groups for one in group}) == sum(map(len, groups))
        assert not any(set(dict(one.changes)) & set(settings) for group in groups for one in group)


def test_wide_sparse_features_may_be_brought_to_length_one(data):
    assert not any("data.standardize" in way for way in ways_to_regularise(data))
    graph = data.graphs[0]
    graph.x = (graph.x.new_ones(40, 300).cumsum(1) % 10 == 0).float()
    assert any(way.get("data.standardize") == "rows" for way in ways_to_regularise(data))


@pytest.mark.slow
def test_the_race_finds_the_model_that_sees_what_matters(data, tmp_path, monkeypatch):
    """A small version of ``python -m benchmarks.race``: neighbours alone decide."""
    monkeypatch.setattr(race, "MODELS", ("mlp", "gcn"))
    draw = torch.Generator().manual_seed(0)
    pairs = torch.randint(160, (2, 320), generator=draw)
    x = torch.randint(2, (160, 1), generator=draw).float() * 2 - 1
    total = torch.zeros(160).index_add_(0, pairs[1], x[pairs[0], 0])
    total.index_add_(0, pairs[0], x[pairs[1], 0])
    graph = Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], 1), y=(total > 0).long())
    torch.save(graph, tmp_path / "neighbours.pt")
    settings = SETTINGS | {"data.name": "neighbours.pt", "trainer.max_epochs": 30}
    outcome = run_race(settings, load("./neighbours.pt"), tmp_path / "run", 120.0)
    assert outcome.settings["model.name"] == "gcn"


def test_a_stopped_race_of_folds_is_resumed_by_command(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(race, "MODELS", ("gcn",))
    monkeypatch.setattr(race, "ways_to_regularise", lambda data: [{}])
    interrupt_heat(monkeypatch, 2)
    words = ["--trainer.max_epochs", "3", "--trainer.accelerator", "cpu", "--quiet"]
    assert main(["train", "--data", "data", "--folds", "0", "--run", "run", *words]) == 130
    assert main(["train", "--data", "data", "--run", "run", *words]) == 2
    assert main(["info", "run"]) == 2
    err = capsys.readouterr().err
    assert err.count("grama train --resume run") == 3
    assert main(["train", "--resume", "run", "--quiet"]) == 0
    assert (tmp_path / "run" / "fold-0" / "result.json").is_file()
    assert "fold 0" in capsys.readouterr().out


def test_a_race_that_goes_on_takes_no_other_settings(data, monkeypatch, capsys):
    interrupt_heat(monkeypatch, 1)
    assert main(["train", "--data", "data", "--run", "run", "--trainer.accelerator", "cpu"]) == 130
    assert is_racing("run")
    capsys.readouterr()
    for name, words in {"trainer.max_epochs": ("2",), "no-test": ()}.items():
        assert main(["train", "--resume", "run", f"--{name}", *words]) == 2
        assert capsys.readouterr().err == (
            f"grama: '{name.removeprefix('no-')}' cannot be changed with '--resume': a race "
            "continues with the settings given at the start; start a new run for others.\n"
        )


BEGUN = json.dumps({"settings": {}, "budget": 1, "folds": []})


@pytest.mark.parametrize("content", ["[" * 100_000, BEGUN + " " * 1_000_000, None])
def test_a_damaged_race_is_one_sentence(tmp_path, content):
    if content is None:
        os.mkfifo(tmp_path / "race.json")
    else:
        (tmp_path / "race.json").write_text(content)
    with pytest.raises(RunError, match="cannot be read: start the run again"):
        read_race(tmp_path)


def test_rows_of_length_one_are_asked_for_by_word(data):
    config = make_config(SETTINGS | {"data.standardize": "rows"}, data=data)
    scale = build_task(config, DataFacts.of(data), data).model.node_scale
    assert scale(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).norm(dim=1).tolist() == [1.0, 0.0]
