import pytest
import torch

from torch_grama.experiments import run
from torch_grama.experiments.run import threads_for


@pytest.fixture(autouse=True)
def two_at_start(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(run, "_THREADS_AT_START", 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("num_nodes", "expected"), [(1000, 1), (100_000, 2)])
def test_small_layers_take_one_thread_and_give_the_others_back(num_nodes, expected):
    with threads_for(num_nodes, 64):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 2


def test_what_the_user_said_stands(monkeypatch):
    torch.set_num_threads(3)
    with threads_for(10, 8):
        assert torch.get_num_threads() == 3
    torch.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with threads_for(10, 8):
        assert torch.get_num_threads() == 2
