"""Runs the Triton kernels as Python, on a CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from torch_grama.nn import engine
from torch_grama.nn.engine import kernels

TRITON_MODULES = ("triton_sequences", "triton_coefficients", "triton_edges")
# Modules for the interpreter, which rewrites each function when it is first called.
_INTERPRETED: dict[str, ModuleType] = {}


def forget_kernels() -> None:
    """Lets the kernels be imported anew, which is when Triton's switch is read."""
    for name in TRITON_MODULES:
        sys.modules.pop(f"torch_grama.nn.engine.{name}", None)
        if hasattr(engine, name):
            delattr(engine, name)
    kernels._load.cache_clear()


@pytest.fixture
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What takes long is marked ``no_cover``: traced, it would take twice as long."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    _patch_language_once(monkeypatch)
    forget_kernels()
    sys.modules.update(_INTERPRETED)
    launch = kernels._load("triton_sequences")
    # tiny graphs are cut into several runs too
    monkeypatch.setattr(launch, "_MIN_NODES_PER_PROGRAM", 1)
    monkeypatch.setattr(launch, "_GRAM_PROGRAMS", 8)
    monkeypatch.setattr(launch, "_SUM_PROGRAMS", 6)
    yield
    for name in (f"torch_grama.nn.engine.{part}" for part in TRITON_MODULES):
        if name in sys.modules:
            _INTERPRETED[name] = sys.modules[name]
    forget_kernels()


def _patch_language_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton replaces its whole language at every call of a function inside a kernel, which is most
    of the time that a kernel takes; once a kernel does."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang

    def patch_once(function: Any) -> Any:
        languages = [interpreter.tl, interpreter.tl.core]
        seen = [one for one in languages if any(one is v for v in function.__globals__.values())]
        if all(hasattr(one, "_is_patched") for one in seen):
            return interpreter._LangPatchScope()
        scope = patch(function)
        for one in seen:
            scope.set_attr(one, "_is_patched", True)
        return scope

    monkeypatch.setattr(interpreter, "_patch_lang", patch_once)
