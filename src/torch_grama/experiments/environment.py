"""Where a run ran: versions, machine, revision of the code."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import torch_grama

LIBRARIES = ("torch", "torch_geometric", "pytorch_lightning", "torchmetrics", "numpy")


@dataclass(frozen=True)
class Environment:
    r"""What a run depended on besides its configuration."""

    versions: Mapping[str, str]  # library to version
    hardware: Mapping[str, str]  # processor, cores, and graphics cards in words
    revision: str | None  # the revision of the code, if it runs from a repository


def describe_environment() -> Environment:
    r"""Looks at the machine and the installed libraries."""
    versions = {"torch_grama": torch_grama.__version__, "python": platform.python_version()}
    versions |= _library_versions()
    hardware = {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        hardware["accelerator"] = ", ".join(names)
        hardware["cuda"] = str(torch.version.cuda)
    return Environment(versions, hardware, _own_revision())


@functools.cache
def _library_versions() -> dict[str, str]:
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return versions


def is_older(version: str, other: str) -> bool:
    r"""Whether a version of this package comes before another."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)[:3]]

    return numbers(version) < numbers(other)


def find_revision(package: Path) -> str | None:
    r"""Returns the revision of the repository that a package's folder belongs to, if any.

    A package that is installed inside somebody else's repository does not belong to it.
    """
    project = package.parents[1] if len(package.parents) > 1 else package
    if package.parent.name != "src" or not (project / ".git").exists():
        return None

    def ask(*words: str) -> str:
        result = subprocess.run(
            ["git", "-C", str(project), *words], capture_output=True, text=True, timeout=10
        )
        return result.stdout.strip() if result.returncode == 0 else ""

    try:
        revision = ask("rev-parse", "HEAD")
        changed = bool(ask("status", "--porcelain", "--untracked-files=no", "--", "src"))
    except (OSError, subprocess.TimeoutExpired):
        return None
    if not revision:
        return None
    return f"{revision} with changes" if changed else revision


@functools.cache
def _own_revision() -> str | None:
    """Asked for once in a process: many short runs would wait for git longer than they train."""
    return find_revision(Path(torch_grama.__file__).parent)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
