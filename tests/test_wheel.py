"""The package as it is installed."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from torch_grama.reproduce.suite import CONFIGS

PROJECT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh environment that has the wheel, and the libraries of this one."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    source, fresh = folder / "source", folder / "fresh"
    # a copy: a build leaves files beside what it reads
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(PROJECT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(fresh)
    install = ["--python", str(fresh / "bin" / "python"), "install", "-q", "--no-deps"]
    subprocess.run([*PIP, *install, "--no-index", str(wheel)], check=True)
    (packages,) = fresh.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return fresh


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
def test_an_installed_wheel_has_all_that_it_needs(environment):
    def run(program, *words):
        return subprocess.run(
            [environment / "bin" / program, *words],
            cwd=environment,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert run("grama", "demo", "--help").startswith("usage: grama demo")
    place, suites, results, row = json.loads(run("python", "-c", ASK, json.dumps(COMMANDS)))
    assert place.startswith(str(environment))
    listed = [line.split()[0] for line in suites.splitlines() if not line.startswith(" ")]
    assert listed == sorted(path.parent.name for path in CONFIGS.glob("*/suite.yaml"))
    assert len(results.splitlines()) > 5
    assert "name: transfer-line-3\n" in row
