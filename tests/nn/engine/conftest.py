"""Runs the Triton kernels as Python, on a CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from torch_grama.nn import engine
from torch_grama.nn.engine import kernels

TRITON_MODULES = ("triton_sequences", "triton_coefficients", "triton_edges")


def forget_kernels() -> None:
    """Lets the kernels be imported anew, which is when Triton's switch is read."""
    for name in TRITON_MODULES:
        sys.modules.pop(f"torch_grama.nn.engine.{name}", None)
        if hasattr(engine, name):
            delattr(engine, name)
    kernels._load.cache_clear()


@pytest.fixture
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    forget_kernels()
    launch = kernels._load("triton_sequences")
    # tiny graphs are cut into several runs too
    monkeypatch.setattr(launch, "_MIN_NODES_PER_PROGRAM", 1)
    monkeypatch.setattr(launch, "_GRAM_PROGRAMS", 8)
    monkeypatch.setattr(launch, "_SUM_PROGRAMS", 6)
    yield
    forget_kernels()
