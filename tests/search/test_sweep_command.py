"""``grama sweep`` as a user calls it: mistakes are told at once, kills are survived."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
import yaml
from sweep_cases import small_base, stamps, write_heights

from torch_grama.cli import main

psutil = pytest.importorskip("psutil")


@pytest.fixture
def space(tmp_path) -> Path:
    path = tmp_path / "space.yaml"
    write_space(path, {})
    return path


def write_space(path: Path, change: dict[str, object], epochs: int = 3) -> None:
    content = {
        "base": small_base(write_heights(path.parent / "data"), epochs),
        "space": {"optimizer.lr": {"grid": [0.1, 0.01]}, "model.dropout": {"grid": [0.0, 0.1]}},
    }
    path.write_text(yaml.safe_dump(content | change))


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


def find_workers(process) -> list[psutil.Process]:
    """The processes that train."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "ray::ImplicitFunc" in _words(child)]


@pytest.mark.slow
def test_eight_trials_survive_the_kill_of_a_worker_and_of_the_driver(start_grama, tmp_path):
    path, out = tmp_path / "space.yaml", tmp_path / "out"
    rates = [0.1, 0.05, 0.02, 0.01]
    change = {
        "space": {"optimizer.lr": {"grid": rates}, "model.dropout": {"grid": [0.0, 0.1]}},
        "resources": {"concurrency": 2},
    }
    write_space(path, change, epochs=40)
    process = start_grama("sweep", str(path), "--out", str(out), "--trainer.save_every", "0.2")
    # a worker dies when two trials are finished
    process.wait_until(lambda: len(stamps(out)) >= 2)
    process.wait_until(lambda: find_workers(process))
    find_workers(process)[0].kill()
    # the driver dies when four are
    process.wait_until(lambda: len(stamps(out)) >= 4)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    before = stamps(out)
    assert 4 <= len(before) < 8
    begun = {path.parent.name for path in out.glob("trials/*/trial.json")}

    process = start_grama("sweep", str(out), "--resume", "--json")
    text, error = process.communicate(timeout=1200)
    assert process.returncode == 0, error
    found = json.loads(text)
    after = stamps(out)
    assert {name: after[name] for name in before} == before
    assert len(after) == 8
    assert len(found["trials"]) == 8
    assert {trial["state"] for trial in found["trials"]} == {"finished"}
    assert begun <= {trial["name"] for trial in found["trials"]}
    assert {trial["epochs"] for trial in found["trials"]} == {40}
    # the agents of the Ray whose driver was killed give up by themselves
    _, alive = psutil.wait_procs(family, timeout=600)
    assert not [one for one in alive if one.status() != "zombie"]


def _words(process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_an_interrupted_sweep_says_how_to_go_on_and_leaves_no_process(start_grama, tmp_path):
    path, out = tmp_path / "space.yaml", tmp_path / "out"
    write_space(path, {}, epochs=100_000)
    process = start_grama("sweep", str(path), "--out", str(out))
    process.wait_until(lambda: list(out.glob("trials/*/run/metrics.csv")))
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    text, error = process.communicate(timeout=1200)
    assert process.returncode == 143, error
    assert f"go on with `grama sweep {out} --resume`" in error
    assert "Traceback" not in error
    assert text == ""
    _, alive = psutil.wait_procs(family, timeout=600)
    assert not [one for one in alive if one.status() != "zombie"]
    assert (out / "sweep.csv").is_file()
    assert not (out / "best.yaml").exists()
