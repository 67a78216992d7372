"""The package as it is installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torch_grama.reproduce.suite import CONFIGS

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which the wheel was installed."""
    pytest.importorskip("setuptools", minversion="77")
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "target"))
    # a copy: a build leaves files beside what it reads
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(PROJECT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    options = ["-q", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    words = ["install", *options, "--target", str(target), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return target


COMMANDS = [
    ["reproduce", "list"],
    ["results", "--suite", "hetero"],
    ["train", "--config", "transfer/transfer-line-3-gcn", "--print-config"],
]
ASK = """
import contextlib, io, json, sys
import torch_grama
from torch_grama.cli import main

answers = [torch_grama.__file__]
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(words) == 0
    answers.append(said.getvalue())
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_an_installed_wheel_has_all_that_it_needs(installed):
    def run(program, *words):
        return subprocess.run(
            [sys.executable, program, *words],
            cwd=installed,
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert run("bin/grama", "demo", "--help").startswith("usage: grama demo")
    place, suites, results, row = json.loads(run("-c", ASK, json.dumps(COMMANDS)))
    assert place.startswith(str(installed))
    listed = [line.split()[0] for line in suites.splitlines() if not line.startswith(" ")]
    assert listed == sorted(path.parent.name for path in CONFIGS.glob("*/suite.yaml"))
    assert len(results.splitlines()) > 5
    assert "name: transfer-line-3\n" in row


# What the package does not read: compiled code, and texts and pictures for readers.
NOT_READ = {".pyc", ".md", ".png", ".svg"}


@pytest.mark.slow
def test_an_installed_wheel_has_every_file_that_is_read(installed):
    there, here = (
        {
            path.relative_to(folder)
            for path in (folder / "torch_grama").rglob("*")
            if path.is_file() and path.suffix not in NOT_READ
        }
        for folder in (installed, PROJECT / "src")
    )
    assert there == here
