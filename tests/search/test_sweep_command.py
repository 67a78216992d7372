"""``grama sweep`` as a user calls it: mistakes are told at once."""

import re
from pathlib import Path

import pytest
from sweep_cases import write_space

from torch_grama.cli import main


@pytest.fixture
def space(tmp_path) -> Path:
    path = tmp_path / "space.yaml"
    write_space(path, {})
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizer.rl", "0.1"], "no setting 'optimizer.rl'.*did you mean 'optimizer.lr'"),
        (["--num-trials", "3", "--searcher", "grid"], "takes every point"),
        (["--num-trials", "3"], "takes every point"),
        (["--cpus-per-trial", "0"], "above 0"),
        (["--cpus-per-trial", "10000"], "at most .* cores a trial"),
        (["--data", "minesweper"], "minesweeper"),
        (["--test", "true"], "leaves the test part unread"),
        (["--model.ar_order", "7"], "ar_order"),
        (["--resume"], "There is no sweep in"),
        (["--ray-address", "127.0.0.1:1"], "no Ray cluster at '127.0.0.1:1'.*leave it out"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(space, capsys, arguments, message):
    out = space.parent / "out"
    assert main(["sweep", str(space), "--out", str(out), *arguments]) == 2
    text = capsys.readouterr().err
    assert re.search(message, text), text
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {"optimizer.lrr": {"grid": [1]}}}, "did you mean 'optimizer.lr'"),
        ({"space": {"optimizer.lr": {"grid": [0.1, "fast"]}}}, "Expected 'optimizer.lr' to be"),
        ({"space": {"optimizer.lr": {"grid": [0.1, -1]}}}, "optimizer.lr"),
        ({"space": {"model.num_layers": {"uniform": [1, 3]}}}, "not under both"),
        ({"space": {"model.seq_len": {"uniform": [1.5, 3.2]}}}, "a whole number"),
        ({"space": {"model.backbone": {"grid": ["gcn", "gnc"]}}}, "'gcn'"),
        ({"space": {"data.name": {"grid": ["cora"]}}, "base": {}}, "Expected one data set"),
        ({"space": {"data.fold": {"grid": [0, 1]}}, "repeat": {"folds": [0]}}, "not both"),
        ({"repeat": {"folds": [0, 7]}}, "below 1, the number of folds"),
        ({"metric": "val/accuracy"}, "'val/mae'"),
        ({"searcher": "grid", "space": {"seed": {"int": [1, 3]}}}, "a range, 'int'"),
        ({"spice": {}}, "no key 'spice'"),
    ],
)
def test_a_typo_in_the_file_is_told_before_anything_starts(space, capsys, change, message):
    write_space(space, change)
    out = space.parent / "out"
    assert main(["sweep", str(space), "--out", str(out)]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1
    assert not out.exists()


def test_folders_are_looked_at_first(space, capsys):
    out = space.parent / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    assert main(["sweep", str(space), "--out", str(out)]) == 2
    assert "is not empty and holds no sweep" in capsys.readouterr().err
    (out / "space.yaml").write_text("space: {}\n")
    assert main(["sweep", str(space), "--out", str(out)]) == 2
    assert "holds a sweep: go on with `--resume`" in capsys.readouterr().err
    assert main(["sweep", str(out)]) == 2
    assert "Expected a space file" in capsys.readouterr().err


def test_a_sweep_is_resumed_with_its_own_base_alone(space, capsys):
    out = space.parent / "out"
    out.mkdir()
    (out / "space.yaml").write_text(space.read_text())
    call = ["sweep", str(space), "--out", str(out), "--resume"]
    assert main([*call, "--model.hidden_channels", "5"]) == 2
    assert "'model.hidden_channels' 5 instead of 4" in capsys.readouterr().err
    assert main([*call, "--optimizer.lr", "0.1"]) == 2
    assert "begin another" in capsys.readouterr().err
    (out / "data.sha").write_text("of other values")
    assert main(call) == 2
    assert "data is not what" in capsys.readouterr().err
