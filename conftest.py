"""What pytest collects, how Triton is loaded for the tests, that Ctrl-C reaches them, and what all
tests may ask for."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import torch

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


# Triton exists for Linux alone; without it the device code cannot be imported for its doctests.
collect_ignore_glob = [] if find_spec("triton") else ["src/torch_grama/nn/engine/triton_*.py"]


_TRACED = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage follows the first cases of each test: traced, a test takes twice as long."""
    cases: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        if cases[test] > _TRACED:
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tensors of a few numbers gain nothing from threads, and lose much to their start."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
