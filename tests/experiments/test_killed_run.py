"""A run that is killed, or asked to stop, ends after a resume like one that was left alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sample_data import write_graph_file

from torch_grama.runs.result import Result
from torch_grama.training import read_checkpoint

PROJECT = Path(__file__).parents[2]
# dropout, shuffled batches, a schedule and early stopping are all at work
SETTINGS = [
    "--trainer.max_epochs", "24", "--trainer.patience", "16", "--trainer.batch_size", "8",
    "--trainer.save_every", "0", "--trainer.accelerator", "cpu", "--model.hidden_channels", "8",
    "--model.dropout", "0.3", "--model.num_layers", "2", "--optimizer.lr", "0.01",
]  # fmt: skip
# A command that sends itself a signal when a function is called for the n-th time.
INTERRUPTED = """
import itertools, os, pkgutil, sys
from torch_grama.cli import main

owner, name, count, number, *words = sys.argv[1:]
owner, calls = pkgutil.resolve_name(owner), itertools.count(1)
original = getattr(owner, name)

def counted(*given, **named):
    if next(calls) == int(count):
        os.kill(os.getpid(), int(number))
    return original(*given, **named)

setattr(owner, name, counted)
sys.exit(main(words))
"""
STEP = ("torch.optim.AdamW", "step")
WRITE = ("os", "replace")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems"),
]


def start(*words: str, interrupt: tuple[object, ...] = ()) -> subprocess.Popen[str]:
    """Starts ``grama train``; ``interrupt`` says where: (owner, function, call, signal)."""
    code = ["-c", INTERRUPTED, *map(str, interrupt)] if interrupt else ["-m", "torch_grama"]
    return subprocess.Popen(
        [sys.executable, *code, "train", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=240)
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
    finish(start("--data", str(data), "--run", str(folder / "whole"), *SETTINGS))
    return folder


# between two steps, and before files of the run are put in their places
@pytest.mark.parametrize("moment", [(*STEP, 77), (*WRITE, 24)])
def test_killed_at_any_moment(left_alone, moment):
    run = left_alone / f"killed-{moment[1]}-{moment[2]}"
    data = str(left_alone / "graphs.jsonl")
    interrupt = (*moment, int(signal.SIGKILL))
    process = start("--data", data, "--run", str(run), *SETTINGS, interrupt=interrupt)
    process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL
    assert not (run / "result.json").exists()
    finish(start("--resume", str(run)))
    assert_same(run, left_alone / "whole")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_stop(left_alone, number, status):
    run = left_alone / f"stopped-{status}"
    data = str(left_alone / "graphs.jsonl")
    interrupt = (*STEP, 20, int(number))
    process = start("--data", data, "--run", str(run), *SETTINGS, interrupt=interrupt)
    _, err = process.communicate(timeout=240)
    assert process.returncode == status
    assert err.rstrip().endswith(f"go on with `grama train --resume {run}`.")
    assert "Traceback" not in err
    finish(start("--resume", str(run)))
    assert_same(run, left_alone / "whole")


def test_a_run_in_work_cannot_be_resumed_by_another(left_alone):
    run = left_alone / "busy"
    data = str(left_alone / "graphs.jsonl")
    interrupt = (*STEP, 20, int(signal.SIGSTOP))
    process = start("--data", data, "--run", str(run), *SETTINGS, interrupt=interrupt)
    os.waitpid(process.pid, os.WUNTRACED)  # until it stops
    second = start("--resume", str(run))
    _, err = second.communicate(timeout=240)
    process.kill()
    process.communicate()
    assert second.returncode == 2
    assert f"being worked on by another process (number {process.pid})" in err


def test_a_full_disk_is_one_sentence(tmp_path):
    """The largest file allowed is smaller than a checkpoint, which is how a full disk looks."""
    code = (
        "import resource, signal, sys\n"
        "from torch_grama.cli import main\n"
        "import torch_grama.experiments, torch_grama.cli.train\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    data = write_graph_file(tmp_path / "graphs.jsonl", num_graphs=20)
    words = ["train", "--data", str(data), "--run", str(tmp_path / "run")]
    result = subprocess.run(
        [sys.executable, "-c", code, *words, *SETTINGS, "--trainer.max_epochs", "2"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "OMP_NUM_THREADS": "1"},
        timeout=240,
        check=False,
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "could not be written" in result.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_two_processes_lose_one_and_end_as_one_does(tmp_path, number):
    write_graph_file(tmp_path / "graphs.jsonl")
    # on CPUs each process norms its share of a batch: layer norm has no shares
    words = [
        "--data", str(tmp_path / "graphs.jsonl"), "--model", "grama-gcn", *SETTINGS,
        "--trainer.max_epochs", "30", "--trainer.patience", "30", "--model.dropout", "0",
        "--model.norm", "layer_norm", "--run",
    ]  # fmt: skip
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    finish(start(*words, str(alone)))
    process = start(*words, str(pair), "--trainer.devices", "2")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("epoch 1/"):
        assert line, "the run ended before its first epoch"
    if number == signal.SIGKILL:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [c for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
        os.kill(int(workers[-1]), number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=120)
    if number == signal.SIGKILL:
        assert process.returncode == 1
        assert "A training process ended from outside (SIGKILL)" in said
        assert "resume the run" in said
    else:
        assert process.returncode == 143
    assert "Traceback" not in said
    finish(start("--resume", str(pair)))
    one, two = (Result.load(run / "result.json") for run in (alone, pair))
    assert two.epochs == one.epochs == 30
    assert two.losses == pytest.approx(one.losses, rel=1e-3)
