"""A run folder: what it refuses, who may work in it, and when it counts as finished."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_grama.runs.run_folder import RunError, RunFolder, propose_folder


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_life_of_a_folder(run):
    run.make()
    assert (run.is_run, run.is_finished) == (False, False)
    run.make()  # nothing was written yet
    run.config.write_text("seed: 0\n")
    assert (run.is_run, run.is_finished) == (True, False)
    run.check()
    with pytest.raises(RunError, match="unfinished run: finish it with `grama train --resume"):
        run.make()
    run.result.write_text("{}")
    assert run.is_finished
    with pytest.raises(RunError, match="holds a finished run: choose another folder"):
        run.make()


def test_a_folder_of_something_else_is_left_alone(run):
    run.path.mkdir()
    (run.path / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        run.make()
    with pytest.raises(RunError, match="holds no run"):
        run.check()
    (run.path / "file").write_text("")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        RunFolder(run.path / "file").make()
    with pytest.raises(RunError, match="cannot be made"):
        RunFolder(run.path / "file" / "below").make()


def test_a_missing_run_names_what_is_near(run):
    with pytest.raises(RunError, match="There is no run"):
        run.check()
    other = RunFolder(run.path.parent / "other")
    other.make()
    other.config.write_text("")
    older = RunFolder(run.path.parent / "past")
    older.make()
    older.config.write_text("")
    os.utime(older.config, (0, 0))
    with pytest.raises(RunError, match=r"newest run beside it is .*other"):
        run.check()
    with pytest.raises(RunError, match=r"the runs in it: .*other"):
        RunFolder(run.path.parent).check()


def test_two_processes_cannot_work_on_one_run(run):
    run.make()
    with run.lock():
        code = (
            "import sys; from torch_grama.runs.run_folder import RunFolder\n"
            "from torch_grama.runs.run_folder import RunError\n"
            "try:\n    RunFolder(sys.argv[1]).lock().__enter__()\n"
            "except RunError as error:\n    print(error)"
        )
        result = subprocess.run(
            [sys.executable, "-c", code, str(run.path)],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
            timeout=120,
            check=True,
        )
        assert f"another process (number {os.getpid()})" in result.stdout
        with pytest.raises(RunError, match="another process"), run.lock():
            pass
    with run.lock():
        pass


def test_proposed_folders_are_new_and_named_after_data_and_model(tmp_path):
    first = propose_folder("some/where/My data!", "grama", tmp_path)
    assert first.name.endswith("-My-data-grama")
    assert first.parent == tmp_path
    first.mkdir()
    second = propose_folder("some/where/My data!", "grama", tmp_path)
    assert second != first
    assert not second.exists()
    assert propose_folder("cora", "grama").parts[0] == "runs"
    assert propose_folder("./", "grama").name.endswith(f"{Path.cwd().name}-grama")


@pytest.mark.parametrize("name", [".lock", "metrics.csv", "tensorboard", "checkpoints/last.ckpt"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    run = RunFolder(tmp_path / "run")
    (run.path / "checkpoints").mkdir(parents=True)
    precious = tmp_path / "precious"
    if name == "tensorboard":
        precious.mkdir()
    else:
        precious.write_text("mine")
    (run.path / name).symlink_to(precious)
    with pytest.raises(RunError, match=f"{name}' is a link"), run.lock():
        pass
    assert precious.is_dir() or precious.read_text() == "mine"
