"""A run that is killed, or asked to stop, ends after a resume like one that was left alone."""

import itertools
import os
import pkgutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch
from sample_data import write_graph_file

from grama_process import GramaProcess
from torch_grama.runs.result import Result
from torch_grama.training import read_checkpoint

# dropout, shuffled batches, a schedule and early stopping are all at work
SETTINGS = [
    "--trainer.max_epochs", "7", "--trainer.patience", "4", "--trainer.batch_size", "8",
    "--trainer.save_every", "0", "--trainer.accelerator", "cpu", "--model.hidden_channels", "8",
    "--model.dropout", "0.3", "--model.num_layers", "2", "--optimizer.lr", "0.01",
]  # fmt: skip
# A command that sends itself a signal when a module is looked for.
STARTING = """
import os, sys

class Bell:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(number))

module, number, *words = sys.argv[1:]
sys.meta_path.insert(0, Bell())
from torch_grama.cli import main
sys.exit(main(words))
"""
STEP = ("torch.optim:AdamW", "step")
WRITE = ("os", "replace")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems"),
]


def signal_itself(owner_name: str, name: str, count: int, number: int, times: int = 1) -> None:
    """Makes a process send itself a signal when a function is called for the n-th time."""
    owner, calls = pkgutil.resolve_name(owner_name), itertools.count(1)
    original = getattr(owner, name)

    def counted(*given, **named):
        if next(calls) == count:
            for _ in range(times):
                os.kill(os.getpid(), number)
        return original(*given, **named)

    setattr(owner, name, counted)


def allow_small_files() -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


@pytest.fixture
def train(start_grama):
    """Starts ``grama train``; ``interrupt`` says where it is: (owner, function, call, signal)."""

    def start(*words: str, interrupt: tuple[object, ...] = ()) -> GramaProcess:
        before = partial(signal_itself, *interrupt) if interrupt else None
        return start_grama("train", *words, before=before)

    return start


@pytest.fixture
def interrupted(train, left_alone):
    """Starts a run that is interrupted; returns its process and its folder."""

    def start(name: str, *interrupt: object) -> tuple[GramaProcess, Path]:
        data, run = left_alone / "graphs.jsonl", left_alone / name
        words = ["--data", str(data), "--run", str(run), *SETTINGS]
        return train(*words, interrupt=interrupt), run

    return start


def finish(process: GramaProcess) -> None:
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "test accuracy" in out


def assert_same(one: Path, other: Path) -> None:
    first, second = Result.load(one / "result.json"), Result.load(other / "result.json")
    for name in ("val", "test", "best_epoch", "epochs", "losses"):
        assert getattr(first, name) == getattr(second, name), name
    for file in ("best.ckpt", "last.ckpt"):
        weights, others = (
            read_checkpoint(run / "checkpoints" / file)["state_dict"] for run in (one, other)
        )
        assert weights.keys() == others.keys()
        assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    data = write_graph_file(folder / "graphs.jsonl", num_graphs=60)
    finish(GramaProcess("train", "--data", str(data), "--run", str(folder / "whole"), *SETTINGS))
    return folder


# between two steps, and before files of the run are put in their places
@pytest.mark.parametrize(
    "moment", [(*WRITE, 12), pytest.param((*STEP, 33), marks=pytest.mark.long)]
)
def test_killed_at_any_moment(train, interrupted, left_alone, moment):
    name = f"killed-{moment[1]}-{moment[2]}"
    process, run = interrupted(name, *moment, int(signal.SIGKILL))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (run / "result.json").exists()
    finish(train("--resume", str(run)))
    assert_same(run, left_alone / "whole")


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)],
)
def test_asked_to_stop(train, interrupted, left_alone, number, status):
    process, run = interrupted(f"stopped-{status}", *STEP, 20, int(number))
    _, err = process.communicate()
    assert process.returncode == status
    assert err.rstrip().endswith(f"go on with `grama train --resume {run}`.")
    assert "Traceback" not in err
    finish(train("--resume", str(run)))
    assert_same(run, left_alone / "whole")


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("argparse", signal.SIGINT),
        ("torch.nn", signal.SIGTERM),
        *(
            pytest.param(moment, number, marks=pytest.mark.long)
            for moment in ("numpy", "torch", "torch._C", "torchmetrics", "rich")
            for number in (signal.SIGINT, signal.SIGTERM)
        ),
    ],
)
def test_a_signal_while_starting_is_one_sentence(left_alone, moment, number):
    data, run = str(left_alone / "graphs.jsonl"), left_alone / "never"
    words = ["train", "--data", data, "--run", str(run)]
    process = subprocess.run(
        [sys.executable, "-c", STARTING, moment, str(int(number)), *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        timeout=1200,
        check=False,
    )
    assert process.returncode == 128 + number
    assert process.stderr == "grama: interrupted.\n"


def test_a_second_signal_ends_a_run_at_once(interrupted):
    process, _ = interrupted("twice", *STEP, 20, int(signal.SIGINT), 2)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "grama: interrupted."
    assert "Lightning" not in err


def test_a_run_in_work_cannot_be_resumed_by_another(train, interrupted):
    process, run = interrupted("busy", *STEP, 20, int(signal.SIGSTOP))
    process.wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    second = train("--resume", str(run))
    _, err = second.communicate()
    assert second.returncode == 2
    assert f"being worked on by another process (number {process.pid})" in err


def test_a_full_disk_is_one_sentence(start_grama, tmp_path):
    """The largest file allowed is smaller than a checkpoint, which is how a full disk looks."""
    data = write_graph_file(tmp_path / "graphs.jsonl", num_graphs=20)
    words = ["--data", str(data), "--run", str(tmp_path / "run"), *SETTINGS]
    process = start_grama("train", *words, before=allow_small_files)
    _, err = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "could not be written" in err


# on CPUs each process norms its share of a batch: layer norm has no shares
PAIR = [
    "--model", "grama-gcn", *SETTINGS, "--trainer.max_epochs", "30", "--trainer.patience", "30",
    "--model.dropout", "0", "--model.norm", "layer_norm", "--run",
]  # fmt: skip


@pytest.fixture
def pair(train, tmp_path):
    """A run of two processes that has trained for an epoch, and its folder."""
    data = write_graph_file(tmp_path / "graphs.jsonl")
    words = ["--data", str(data), *PAIR, str(tmp_path / "pair"), "--trainer.devices", "2"]
    process = train(*words)
    process.wait_until(lambda: "\nepoch 1/" in process.read()[1])
    return process, tmp_path / "pair"


def assert_resumes_as_one(train, run):
    """It ends as a process that trains alone does."""
    finish(train("--resume", str(run)))
    alone = run.with_name("alone")
    finish(train("--data", str(run.with_name("graphs.jsonl")), *PAIR, str(alone)))
    one, two = (Result.load(folder / "result.json") for folder in (alone, run))
    assert two.epochs == one.epochs == 30
    assert two.losses == pytest.approx(one.losses, rel=1e-3)


@pytest.mark.parametrize("resumes", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_processes_lose_one(train, pair, resumes):
    process, run = pair
    children = psutil.Process(process.pid).children()
    [child for child in children if "spawn_main" in " ".join(child.cmdline())][-1].kill()
    _, said = process.communicate()
    assert process.returncode == 1
    assert "A training process ended from outside (SIGKILL)" in said
    assert "resume the run" in said
    assert "Traceback" not in said
    if resumes:
        assert_resumes_as_one(train, run)


@pytest.mark.long
def test_two_processes_are_asked_to_stop(train, pair):
    process, run = pair
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143
    assert "Traceback" not in said
    assert_resumes_as_one(train, run)
