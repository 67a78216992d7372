"""Pipes, devices, folders and links in place of files: an answer, and nothing written elsewhere."""

import os
import shutil
import socket
from pathlib import Path

import pytest
from damage import Tally, ask
from sample_data import write_graph_file, write_node_folder

from torch_grama.cli import main
from torch_grama.runs.run_folder import RunFolder

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX systems")
SHORT = "--model gin --trainer.max_epochs 1 --model.hidden_channels 4 --trainer.accelerator cpu"


def make(path: Path, kind: str) -> None:
    """Puts something else in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))
    else:
        path.symlink_to({"device": "/dev/zero", "circle": path.name, "gone": "nowhere"}[kind])


KINDS = ("pipe", "device", "socket", "folder", "circle", "gone")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("special")
    write_graph_file(folder / "graphs.jsonl", num_graphs=20)
    write_node_folder(folder / "tables")
    words = ["train", "--data", str(folder / "graphs.jsonl"), "--run", str(folder / "run")]
    assert main([*words, "--quiet", *SHORT.split()]) == 0
    return folder


def test_special_files_as_data(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = Tally("special files as data")
    shutil.copytree(place / "tables", "tables")
    for kind in KINDS:
        for name in ("a.jsonl", "a.npz", "a.pt", "a.json", "a.yaml"):
            make(Path(name), kind)
            words = ["data", "check", f"./{name}"]
            if name == "a.yaml":
                words = ["train", "--config", name]
            with tally.one(f"{kind} {name}"):
                assert ask(*words)[0] == 2
        for name in ("nodes.csv", "edges.csv", "splits.json"):
            kept = Path("tables", name).read_bytes() if Path("tables", name).exists() else b""
            make(Path("tables", name), kind)
            with tally.one(f"{kind} {name}"):
                # a link that leads nowhere is no file, and a split is made anew
                assert ask("data", "check", "./tables")[0] in ((0, 2) if "s" in name[:1] else (2,))
            remove(Path("tables", name))
            if kept:
                Path("tables", name).write_bytes(kept)
        for left in Path().glob("a.*"):
            remove(left)
    tally.close()


def test_special_files_in_a_run(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = Tally("special files in a run")
    names = (
        *("config.yaml", "result.json", "data.json", "metrics.csv", ".lock"),
        *("checkpoints/last.ckpt", "checkpoints/best.ckpt"),
    )
    for number, name in enumerate(names):
        for kind in KINDS[number % 3 :: 3]:
            shutil.copytree(place / "run", "run")
            Path("run/result.json").unlink()
            make(Path("run") / name, kind)
            for words in (["info", "run"], ["predict", "run"], ["train", "--resume", "run"]):
                with tally.one(f"{kind} {name} {words[0]}"):
                    assert ask(*words)[0] in (0, 1, 2)
            shutil.rmtree("run")
    tally.close()
    assert not Path("nowhere").exists()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["config.yaml", "data.json", "result.json", "checkpoints/x.ckpt"])
def test_what_a_killed_writer_left_is_no_obstacle(tmp_path, name):
    run = RunFolder(tmp_path / "run")
    left = run.path / name
    left.parent.mkdir(parents=True)
    left = left.with_name(f".{left.name}.k3u1x_.tmp")
    left.write_text("half of")
    if left.parent == run.path:
        run.make()
    with run.lock():
        assert not left.exists()
