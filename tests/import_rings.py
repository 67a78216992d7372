"""Reads the imports of a package and finds those that break the order of its rings.

An import may point into its own room or inward, never outward and never sideways between two rooms
of one ring. Each inner room also has a short list of libraries that it may load.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

PACKAGE = "torch_grama"

RINGS = {
    "nn": 0,
    "runs": 0,
    "baselines": 1,
    "datasets": 1,
    "analysis": 1,
    "training": 2,
    "experiments": 3,
    "search": 4,
    "reproduce": 4,
    "report": 4,
    "cli": 5,
}
# Rooms that an outer ring must not enter although the way is inward.
CLOSED = {"report": {"nn"}}  # it reads result files and knows no model

# Folders inside a room that know nothing of the rest of it.
INNERMOST = {"nn/engine": f"{PACKAGE}.nn.engine"}

# What a room may load when it is imported. Rooms that are not listed may load what they like.
LIBRARIES = {
    "": set[str](),
    "runs": set[str](),
    "nn": {"torch", "torch_geometric", "numpy"},
    "baselines": {"torch", "torch_geometric", "numpy"},
    "analysis": {"torch", "numpy"},
    "datasets": {"torch", "torch_geometric", "numpy", "filelock", "networkx", "scipy"},
    "training": {"torch", "torch_geometric", "numpy", "pytorch_lightning", "torchmetrics"},
    "report": {"matplotlib"},
    "cli": set[str](),
}
# What it may load besides when one of its functions is called.
LAZY_LIBRARIES = {
    "analysis": {"torchmetrics"},
    "datasets": {"rdkit", "ogb", "matplotlib", "rich", "pandas", "pyarrow"},
    "training": {"rich"},
    "report": {"jinja2"},
    "runs": {"filelock", "rich", "yaml"},
    "cli": {"jinja2", "matplotlib", "rich", "yaml"},
}
# What single files may load besides.
FILE_LIBRARIES = {"nn/engine/triton_*.py": {"triton"}}

EMPTY_NAMES = {"utils", "helpers", "misc", "common"}


@dataclass(frozen=True)
class Import:
    """One import: where it stands, what it loads, and whether it waits for a function call."""

    path: Path
    line: int
    module: str
    lazy: bool

    @property
    def library(self) -> str:
        """The top-level name."""
        return self.module.partition(".")[0]


def find_faults(package: Path) -> list[str]:
    """Returns one sentence for each import in the package's folder that breaks the order."""
    faults = [fault for found in read_imports(package) for fault in _judge(found, package)]
    return faults + find_empty_names(package)


def find_empty_names(folder: Path) -> list[str]:
    """Returns one sentence for each Python file or folder whose name says nothing."""
    return [
        f"{path.relative_to(folder)}: a name that says nothing about what is inside"
        for path in sorted(folder.rglob("*"))
        if (path.suffix == ".py" or path.is_dir()) and path.stem.strip("_") in EMPTY_NAMES
    ]


@cache
def read_imports(package: Path) -> list[Import]:
    """Every import of every file of a package, those with a constant name in a call too."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = [package.name, *path.relative_to(package).with_suffix("").parts]
        reader = _Reader(path, module[:-1])
        reader.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
        found += reader.imports
    return found


class _Reader(ast.NodeVisitor):
    def __init__(self, path: Path, parents: list[str]) -> None:
        self.imports: list[Import] = []
        self._path = path
        self._parents = parents
        self._lazy = False

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        kept = self._parents[: len(self._parents) - node.level + 1] if node.level else []
        base = ".".join([*kept, *([node.module] if node.module else [])])
        if base != PACKAGE:
            self._add(node, base)
            return
        # `from torch_grama import name` enters the room of that name, if it is one
        for alias in node.names:
            self._add(node, f"{base}.{alias.name}" if _room_of(alias.name) in RINGS else base)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("import_module", "__import__") and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                self._add(node, argument.value)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        # what only the type checker reads is never loaded
        test = node.test.attr if isinstance(node.test, ast.Attribute) else ""
        test = node.test.id if isinstance(node.test, ast.Name) else test
        if test != "TYPE_CHECKING":
            self.generic_visit(node)
            return
        self._visit_lazily(node.body)
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_lazily(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_lazily(node.body)

    def _visit_lazily(self, body: list[ast.stmt]) -> None:
        outside, self._lazy = self._lazy, True
        for child in body:
            self.visit(child)
        self._lazy = outside

    def _add(self, node: ast.stmt | ast.expr, module: str) -> None:
        self.imports.append(Import(self._path, node.lineno, module, self._lazy))


def _judge(found: Import, package: Path) -> Iterator[str]:
    path = found.path.relative_to(package)
    place = f"{path}:{found.line}: "
    room = "" if path.name == "__init__.py" and len(path.parts) == 1 else _room_of(path.parts[0])
    if room and room not in RINGS:
        yield f"{place}'{room}' lies in no ring; give it a place in RINGS"
    elif found.library == package.name:
        target = _room_of(found.module.removeprefix(package.name).lstrip(".").partition(".")[0])
        if not _may_enter(room, target):
            yield f"{place}'{room or package.name}' must not import {found.module}"
            return
        for folder, inside in INNERMOST.items():
            if path.as_posix().startswith(f"{folder}/") and not found.module.startswith(inside):
                yield f"{place}'{folder}' must not import {found.module}"
    elif found.library not in sys.stdlib_module_names and room in LIBRARIES:
        allowed = LIBRARIES[room] | (LAZY_LIBRARIES.get(room, set()) if found.lazy else set())
        for pattern, libraries in FILE_LIBRARIES.items():
            if fnmatch(path.as_posix(), pattern):
                allowed = allowed | libraries
        if found.library not in allowed:
            when = "" if found.lazy else " at import"
            yield f"{place}'{room or package.name}' must not load {found.library}{when}"


def _room_of(name: str) -> str:
    """The folder below the package; what runs the package belongs to ``cli``."""
    name = name.removesuffix(".py")
    return "cli" if name == "__main__" else name


def _may_enter(room: str, target: str) -> bool:
    if room == "":
        return target == "nn"
    if target == "":  # the package's own face: version, and the names of nn
        target = "nn"
        if room == "nn":
            return False
    if target not in RINGS or target in CLOSED.get(room, set()):
        return False
    return room == target or RINGS[target] < RINGS[room]
