"""The core needs torch, torch_geometric, numpy and what these need, and its import does nothing."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bare_core import MARK
from import_rings import read_imports

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parent / "src"
CORE_DEPENDENCIES = ("torch", "torch_geometric", "numpy")

# Libraries of the extras, and libraries that torch or torch_geometric use if they are there.
HIDDEN = {
    "jsonargparse",
    "matplotlib",
    "networkx",
    "ogb",
    "optuna",
    "pandas",
    "pytorch_lightning",
    "ray",
    "rdkit",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "tensorboard",
    "torchmetrics",
    "triton",
    "yaml",
}


def distributions_needed(*names: str) -> set[str]:
    """The distributions that an installation without extras brings along, themselves included."""
    found: set[str] = set()
    left = [canonicalize_name(name) for name in names]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needs = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            continue
        left += [
            canonicalize_name(need.name)
            for need in needs
            if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
    return found


def run_bare(order: dict) -> dict:
    """Runs ``bare_core.py`` in a process of its own and returns its report."""
    result = subprocess.run(
        [sys.executable, "-I", str(FOLDER / "bare_core.py"), json.dumps(order)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    _, printed, last_line = result.stdout.split(f"{MARK}\n")
    _, complained, _ = result.stderr.split(f"{MARK}\n")
    return json.loads(last_line) | {"printed": printed, "complained": complained}


@pytest.fixture(scope="module")
def report() -> dict:
    needed = distributions_needed(*CORE_DEPENDENCIES) | {"torch-grama"}
    not_needed = {
        library
        for library, names in packages_distributions().items()
        if not needed & {canonicalize_name(name) for name in names}
    }
    found = [
        one
        for one in read_imports(SOURCE / "torch_grama")
        if one.path.parent.name == "torch_grama" or {"nn", "analysis"} & set(one.path.parts)
    ]
    order = {
        "source": str(SOURCE),
        "absent": sorted(not_needed | HIDDEN),
        "forward": True,
        # what others do when they are loaded is theirs, and is over before the watch begins
        "preload": sorted(
            {one.module for one in found if not one.lazy}
            - {one.module for one in found if one.library in ("torch_grama", "triton")}
        ),
    }
    return run_bare(order)


@pytest.mark.slow
def test_core_runs_without_any_extra(report):
    assert report["findable"] == []
    assert not set(report["loaded"]) & HIDDEN
    assert len(report["gradients"]) == 10
    assert all(report["gradients"].values()), report["gradients"]


@pytest.mark.slow
def test_core_prints_nothing_and_warns_of_nothing(report):
    assert (report["printed"], report["complained"]) == ("", "")
    assert report["warnings"] == []


@pytest.mark.slow
def test_import_opens_no_file_thread_process_or_connection(report):
    assert report["opened"] == []
    assert report["threads"] == 0


NOISY = """
import importlib.util, pathlib, socket, sys, threading, warnings

print("hello")
print("oh", file=sys.stderr)
warnings.warn("careful")
pathlib.Path(__file__).with_name("note.txt").write_text("x")
pathlib.Path(sys.executable).open("rb").close()
threading.Thread(target=threading.Event().wait, daemon=True).start()
socket.socket().close()
try:
    import pytest
except ModuleNotFoundError:
    absent = importlib.util.find_spec("pytest") is None
assert absent
"""


def test_every_side_effect_of_an_import_is_seen(tmp_path):
    for folder in ("torch_grama", "torch_grama/nn", "torch_grama/analysis"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "torch_grama" / "__init__.py").write_text(NOISY)
    preload = ["pathlib", "socket", "threading", "warnings"]
    report = run_bare(
        {"source": str(tmp_path), "absent": ["pytest"], "preload": preload, "forward": False}
    )
    assert (report["printed"], report["complained"]) == ("hello\n", "oh\n")
    assert report["warnings"] == ["careful"]
    assert report["threads"] == 1
    # not every version of Python announces threads, which are counted besides
    events = [line.partition("(")[0] for line in report["opened"] if "_thread" not in line]
    assert events == ["open", "open", "socket.__new__"]
    assert report["findable"] == []


def test_an_installation_brings_its_dependencies_dependencies():
    assert distributions_needed("torch_geometric") >= {"torch-geometric", "aiohttp", "yarl"}
    assert not distributions_needed(*CORE_DEPENDENCIES) & {"pytest", "rich", "matplotlib"}
