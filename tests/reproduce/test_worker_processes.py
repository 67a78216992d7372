import signal

import pytest

from torch_grama.reproduce import reproduction, worker_processes


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_are_forked_where_the_system_can(method, monkeypatch):
    monkeypatch.setattr(worker_processes, "get_all_start_methods", lambda: ["spawn", method])
    assert worker_processes.prepare_workers().get_start_method() == method


def test_ctrl_c_is_left_to_the_process_that_started_the_workers(one_thread):
    before = signal.getsignal(signal.SIGINT)
    try:
        reproduction._prepare_worker()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
