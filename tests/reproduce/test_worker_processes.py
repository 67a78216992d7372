import pytest

from torch_grama.reproduce import worker_processes


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_are_forked_where_the_system_can(method, monkeypatch):
    monkeypatch.setattr(worker_processes, "get_all_start_methods", lambda: ["spawn", method])
    assert worker_processes.prepare_workers().get_start_method() == method
