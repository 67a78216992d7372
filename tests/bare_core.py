"""Runs the core as if some of the installed libraries were not, and says what it did.

A process of its own: ``python bare_core.py '{"source": ..., "absent": [...], ...}'``.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

CORE = ("torch_grama", "torch_grama.nn", "torch_grama.analysis")
MARK = "-- the core is running --"


class Absence(MetaPathFinder):
    """Finds what another finder finds, but for libraries that are to be absent.

    It answers as if they were not installed, so that ``find_spec`` gives None and ``import`` raises
    ModuleNotFoundError, as on a machine without them.
    """

    def __init__(self, finder: MetaPathFinder, absent: set[str]) -> None:
        self._finder = finder
        self._absent = absent

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self._absent:
            return None
        return self._finder.find_spec(fullname, path, target)


class Watch:
    """Notes which files, threads, processes and connections are opened while it is on."""

    def __init__(self, source: Path) -> None:
        self.seen: list[str] = []
        self.on = False
        self._source = str(source)
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.on:
            return
        watched = ("open", "socket.", "subprocess.", "os.", "shutil.", "_thread.", "urllib.")
        if event.startswith(watched) and not self._is_reading_the_package(event, arguments):
            self.seen.append(f"{event}{arguments[:2]}")

    def _is_reading_the_package(self, event: str, arguments: tuple[object, ...]) -> bool:
        # as the import system does
        if event not in ("open", "os.listdir") or not str(arguments[0]).startswith(self._source):
            return False
        return event == "os.listdir" or arguments[1] in ("r", "rb")


def main() -> None:
    order = json.loads(sys.argv[1])
    absent = set(order["absent"])
    sys.dont_write_bytecode = True
    sys.meta_path[:] = [Absence(finder, absent) for finder in sys.meta_path]
    sys.path.insert(0, order["source"])
    for name in order["preload"]:
        importlib.import_module(name)

    watch = Watch(Path(order["source"]) / "torch_grama")
    threads = threading.active_count()
    for stream in (sys.stdout, sys.stderr):
        print(MARK, file=stream, flush=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        watch.on = True
        for name in CORE:
            importlib.import_module(name)
        watch.on = False
        threads = threading.active_count() - threads
        gradients = run_models() if order["forward"] else {}
    for stream in (sys.stdout, sys.stderr):
        print(MARK, file=stream, flush=True)
    report = {
        "opened": watch.seen,
        "threads": threads,
        "warnings": [str(one.message) for one in warned],
        "gradients": gradients,
        "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
        "findable": [name for name in order["absent"] if find_spec(name)],
    }
    print(json.dumps(report))


def run_models() -> dict[str, bool]:
    """Runs forward and backward passes; returns whether every parameter got a finite gradient."""
    import torch

    from torch_grama import GRAMA, analysis

    torch.manual_seed(0)
    ring = torch.arange(6)
    edge_index = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    finite = {}
    for word in ("gcn", "gatedgcn", "gin", "gps", "neighbor-sum"):
        for readout in ("node", "graph"):
            model = GRAMA(3, 8, 2, seq_len=3, backbone=word, readout=readout)
            out, coefficients = model(
                torch.randn(6, 3), edge_index, batch=batch, return_coefficients=True
            )
            out.square().sum().backward()
            radius = analysis.spectral_radius(coefficients[-1].phi)
            values = [radius, *(p.grad for p in model.parameters() if p.numel())]
            finite[f"{word}, {readout}"] = all(
                value is not None and bool(value.isfinite().all()) for value in values
            )
    return finite


if __name__ == "__main__":
    main()
