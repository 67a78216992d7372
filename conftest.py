"""What pytest collects, how Triton is loaded for the tests, that Ctrl-C reaches them, and what all
tests may ask for."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
import torch
from coverage import Coverage

if TYPE_CHECKING:
    from grama_process import GramaProcess

# A shell makes what it runs in the background deaf to this signal, and all its children too; some
# tests send it to theirs.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Triton decides when it is imported whether its kernels are interpreted. Where there is no GPU they
# are, so that tests can run them; this must come before anything else imports it.
if not torch.cuda.is_available() and find_spec("triton") is not None:
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401

    del os.environ["TRITON_INTERPRET"]


# In a process that runs tests side by side with others, pytest-cov starts to look on twice: here,
# and again when tests are collected. The first of the two would not look away for any test.
if "PYTEST_XDIST_WORKER" in os.environ and (measured := Coverage.current()) is not None:
    measured.stop()
    # large libraries, loaded before anyone looks on
    for name in ("torch_geometric.nn", "torch_geometric.datasets", "pytorch_lightning", "scipy"):
        import_module(name)


# Triton exists for Linux alone; without it the device code cannot be imported for its doctests.
collect_ignore_glob = [] if find_spec("triton") else ["src/torch_grama/nn/engine/triton_*.py"]


# Files of long tests, and of those that wait, come first, so that no process is left alone with one
# at the end.
FIRST = (
    *("search", "attack", "docs", "test_wheel.py", "test_core_import.py", "experiments"),
    *("reproduce", "training", "browser", "cli", "nn/test_grama_compile.py"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long files first, and leaves to long runs those cases of a test with three or more
    parameters that bring no new pair of values. Coverage, which slows a test down, follows cases
    that bring a new value, and no draws of hypothesis and no attacks, which go over the same lines
    again and again."""
    folders = [f"/tests/{name}" for name in FIRST]
    items.sort(key=lambda item: [name not in item.path.as_posix() for name in folders])
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is None:
            tests[item.nodeid.partition("[")[0]].append(item)
        if hasattr(getattr(item, "obj", None), "hypothesis") or "attack" in item.path.parts:
            item.add_marker(pytest.mark.no_cover)
    for cases in tests.values():
        if len(cases) > 1 and hasattr(cases[0], "callspec"):
            values = {case: _list_values(case) for case in cases}
            pairs = _choose(values, 2) if len(values[cases[0]]) > 2 else values
            for case in values.keys() - pairs.keys():
                case.add_marker(pytest.mark.long)
            for case in values.keys() - _choose(pairs, 1).keys():
                case.add_marker(pytest.mark.no_cover)


_Values = dict[pytest.Item, list[object]]


def _choose(values: _Values, size: int) -> _Values:
    """Some of the cases, in which each combination of so many values occurs."""
    sets = {case: set(combinations(its, size)) for case, its in values.items()}
    wanted: set[object] = set().union(*sets.values())
    chosen = {}
    while wanted:
        case = max(sets, key=lambda case: len(wanted & sets[case]))
        wanted -= sets.pop(case)
        chosen[case] = values[case]
    return chosen


def _list_values(case: pytest.Item) -> list[object]:
    together = {}
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        together |= {name.strip(): names[0] for name in names}
    values = defaultdict(list)
    for name, value in case.callspec.params.items():
        # arguments that one mark sets together are one parameter
        values[together.get(name, name)].append(id(value))
    return [(name, *ids) for name, ids in values.items()]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tensors of a few numbers gain nothing from threads, and lose much to their start."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, sets of graph transfer have a tenth of their graphs."""
    from torch_grama.datasets import graph_transfer

    counts = (100, 10, 10)
    fewer = partial(graph_transfer.generate_transfer, counts=counts)
    monkeypatch.setattr(graph_transfer, "COUNTS", counts)
    monkeypatch.setattr(graph_transfer, "generate_transfer", fewer)


@pytest.fixture
def start_grama() -> Iterator[Callable[..., "GramaProcess"]]:
    """Starts the command; what still runs when the test is over is killed."""
    from grama_process import GramaProcess

    started: list[GramaProcess] = []

    def start(*words: str, **options: object) -> GramaProcess:
        started.append(GramaProcess(*words, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
