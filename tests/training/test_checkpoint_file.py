"""Checkpoints are whole or refused."""

import contextlib
import errno
import os
import pickle

import pytest
import torch

from torch_grama.runs.run_folder import RunError
from torch_grama.training.checkpoint_file import (
    ORIGIN,
    CheckpointError,
    Origin,
    previous_path,
    read_checkpoint,
    read_latest,
    replace_checkpoint,
)


@pytest.fixture
def path(tmp_path):
    """Where two checkpoints were saved one after another."""
    path = tmp_path / "checkpoints" / "last.ckpt"
    replace_checkpoint(path, {"epoch": 1, "w": torch.arange(3.0)})
    replace_checkpoint(path, {"epoch": 2, "w": torch.arange(4.0)})
    return path


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_round_trip_and_the_one_before_is_kept(path):
    assert read_checkpoint(path)["epoch"] == 2
    assert torch.equal(read_checkpoint(path)["w"], torch.arange(4.0))
    assert read_checkpoint(previous_path(path))["epoch"] == 1
    assert sorted(p.name for p in path.parent.iterdir()) == ["last.ckpt", "previous-last.ckpt"]
    assert torch.load(path, weights_only=True)["epoch"] == 2  # torch reads the file too


def changed(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(torch.tensor([2.0, 3.0]).numpy().tobytes(), b"\0" * 8))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "cut short"),
        (lambda p: p.write_bytes(b""), "a file of 0 bytes"),
        (changed, "match its checksums"),
        (lambda p: p.write_bytes(pickle.dumps(Hostile(p.parent / "owned"))), "no checkpoint"),
        (
            lambda p: torch.save({"a": Hostile(p.parent / "owned")}, p),
            "tensors and plain values alone",
        ),
        (lambda p: torch.save([1], p), "Expected a dictionary"),
    ],
)
def test_damaged_checkpoint_is_refused_and_the_one_before_used(path, damage, message):
    damage(path)
    with pytest.raises(CheckpointError, match=message) as refusal:
        read_checkpoint(path)
    assert str(path) in str(refusal.value)
    content, used, note = read_latest(path)
    assert content["epoch"] == 1
    assert used == previous_path(path)
    assert message in note
    assert f"going on from '{used}'" in note
    assert not (path.parent / "owned").exists()
    # the refused file is out of the way: the good one is not replaced by it
    assert not path.exists()
    assert (path.parent / "refused-last.ckpt").exists()


def test_no_flipped_bit_changes_what_is_read(path):
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            found = read_checkpoint(path)
        except CheckpointError:
            refused += 1
        else:  # between the parts of the file, where nothing is read
            assert found["epoch"] == 2
            assert torch.equal(found["w"], torch.arange(4.0))
    assert refused > 50


def test_no_good_checkpoint_is_an_error_that_names_both(path):
    for one in (path, previous_path(path)):
        one.write_bytes(b"")
    with pytest.raises(CheckpointError, match="start the run again") as error:
        read_latest(path)
    assert str(path) in str(error.value)
    assert str(previous_path(path)) in str(error.value)


def test_missing_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="got: No such file"):
        read_checkpoint(tmp_path / "none.ckpt")
    with pytest.raises(CheckpointError, match="neither is there"):
        read_latest(tmp_path / "none.ckpt")


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_full_disk_leaves_the_old_checkpoint(path, monkeypatch, moment):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    owner = os if moment == "fsync" else type(path)
    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, fail)
        with pytest.raises(OSError, match="No space left"):
            replace_checkpoint(path, {"epoch": 3})
    assert read_checkpoint(path)["epoch"] == 2
    assert read_checkpoint(previous_path(path))["epoch"] == 1
    assert sorted(p.name for p in path.parent.iterdir()) == ["last.ckpt", "previous-last.ckpt"]


def test_file_system_without_links(path, monkeypatch):
    def fail(*args):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", fail)
    replace_checkpoint(path, {"epoch": 3})
    assert read_checkpoint(path)["epoch"] == 3
    assert read_checkpoint(previous_path(path))["epoch"] == 2


def test_a_failed_link_step_leaves_something_to_read(path, monkeypatch):
    """Wherever a save stops, one of the two files is good."""
    real = type(path).replace
    for stop_at in range(4):
        calls = []

        def replace(self, target, calls=calls, stop_at=stop_at):
            calls.append(target)
            if len(calls) > stop_at:
                raise KeyboardInterrupt
            return real(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(type(path), "replace", replace)
            with contextlib.suppress(KeyboardInterrupt):
                replace_checkpoint(path, {"epoch": 10 + stop_at})
        content, _, _ = read_latest(path)
        assert content["epoch"] in (2, 10, 11, 12, 13)


@pytest.mark.parametrize(
    "told", [3, {"settings": 3}, {"settings": {"seed": 0}, "changes": 3}], ids=str
)
def test_an_origin_that_cannot_be_read_is_refused(told):
    with pytest.raises(RunError, match="does not say its settings"):
        Origin({"seed": 0}).follow({ORIGIN: told}, "runs/a")
