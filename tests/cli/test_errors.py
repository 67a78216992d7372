"""What can go wrong becomes one sentence and an exit status."""

import argparse
import errno
import warnings
from pathlib import Path

import pytest
import torch

import torch_grama
from torch_grama.cli.errors import guarded
from torch_grama.datasets.errors import DatasetError
from torch_grama.experiments import ConfigError, RunError, RunInterrupted
from torch_grama.training import CheckpointError


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (DatasetError("The file is odd."), 2, "grama: The file is odd.\n"),
        (ConfigError("No such setting"), 2, "grama: No such setting.\n"),
        (RunError("No such run"), 2, "grama: No such run.\n"),
        (RunError("Did you mean 'node'?"), 2, "grama: Did you mean 'node'?\n"),
        (CheckpointError("It is cut short"), 1, "grama: It is cut short.\n"),
        (RunInterrupted(Path("r"), 143), 143, "grama train --resume r`.\n"),
        (KeyboardInterrupt(), 130, "grama: interrupted.\n"),
        (OSError(errno.ENOSPC, "No space", "x.ckpt"), 1, "the disk is full (writing 'x.ckpt')"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 1, "'x' cannot be used"),
        (torch.OutOfMemoryError("CUDA"), 1, "out of memory: lower trainer.batch_size"),
        (MemoryError(), 1, "out of memory"),
        (ModuleNotFoundError("no", name="jsonargparse"), 2, "pip install 'torch-grama[train]'"),
        (ModuleNotFoundError("no", name="ray.tune"), 2, "pip install 'torch-grama[sweep]'"),
    ],
)  # fmt: skip
def test_one_sentence_and_a_status(capsys, error, status, sentence):
    def command(arguments):
        raise error

    assert guarded(command)(argparse.Namespace()) == status
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("error", [AssertionError("ours"), ModuleNotFoundError("no", name="odd")])
def test_errors_of_our_own_making_are_not_hidden(error):
    def command(arguments):
        raise error

    with pytest.raises(type(error)):
        guarded(command)(argparse.Namespace())


def test_a_warning_of_this_package_is_a_plain_line_and_one_of_others_stays_as_it_is(capsys):
    def command(arguments):
        warnings.warn_explicit("It is odd", UserWarning, torch_grama.__file__, 7)
        warnings.warn_explicit("It is strange", UserWarning, "elsewhere.py", 7)
        return 0

    with pytest.warns(UserWarning, match="strange") as caught:
        assert guarded(command)(argparse.Namespace()) == 0
    assert len(caught) == 1
    assert capsys.readouterr().err == "grama: warning: It is odd.\n"
