"""Memory that is used again, and never by two at once."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from torch_grama.nn.engine import host_memory, kernels
from torch_grama.nn.engine.host_memory import Blocks, new_empty

MIB = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="blocks are lent on Linux only")


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Blocks:
    fresh = Blocks()
    monkeypatch.setattr(host_memory, "_blocks", fresh)
    return fresh


def make(mebibytes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    like = torch.empty(0, dtype=dtype)
    return new_empty(like, mebibytes, MIB // like.element_size())


def lent(blocks: Blocks) -> int:
    blocks.collect()
    return blocks.lent_bytes // MIB


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_is_a_tensor_like_any_other(blocks: Blocks, dtype: torch.dtype) -> None:
    tensor = make(8, dtype)
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert not tensor._is_view()
    assert tensor.untyped_storage().nbytes() == 8 * MIB
    assert lent(blocks) == 8


def test_a_freed_block_serves_the_next_tensor_of_its_size(blocks: Blocks) -> None:
    address = make(8).data_ptr()
    assert make(8).data_ptr() == address
    assert lent(blocks) == 0


def test_the_smallest_block_that_fits_is_taken(blocks: Blocks) -> None:
    small, large = make(8), make(14)
    addresses = small.data_ptr(), large.data_ptr()
    del small, large
    first, second = make(8), make(8)
    assert (first.data_ptr(), second.data_ptr()) == addresses
    assert lent(blocks) == 22


def test_a_block_that_is_much_too_large_is_left(blocks: Blocks) -> None:
    large = make(64)
    address = large.data_ptr()
    del large
    assert make(8).data_ptr() != address


def test_tensors_at_the_same_time_share_nothing(blocks: Blocks) -> None:
    tensors = [make(8).fill_(value) for value in range(5)]
    for value, tensor in enumerate(tensors):
        assert bool((tensor == value).all())


@pytest.mark.parametrize("keep", [lambda t: t[3:5], lambda t: t.detach(), lambda t: t.numpy()])
def test_what_refers_to_the_memory_keeps_it(blocks: Blocks, keep) -> None:
    kept = keep(make(8).fill_(1.0))
    other = make(8).fill_(2.0)
    assert bool((kept == 1).all())
    del kept, other
    assert lent(blocks) == 0


def test_a_graph_keeps_what_it_saved(blocks: Blocks) -> None:
    x = torch.ones(8, MIB // 4, requires_grad=True)
    y = x * make(8).fill_(3.0)
    make(8).fill_(5.0)
    y.sum().backward()
    assert bool((x.grad == 3).all())


def test_small_tensors_and_other_devices_are_left_to_torch(blocks: Blocks) -> None:
    kernels.new_empty(torch.empty(0), 10, 10)
    on_meta = kernels.new_empty(torch.empty(0, device="meta"), 8, MIB)
    assert on_meta.device.type == "meta"
    assert blocks.lent_bytes == 0


def test_no_elements(blocks: Blocks) -> None:
    assert kernels.new_empty(torch.empty(0), 3, 0, 5).size() == (3, 0, 5)


def test_holds_no_more_than_was_lent_at_once(blocks: Blocks) -> None:
    for mebibytes in (8, 64, 24, 12, 8):
        make(mebibytes)
    blocks.collect()
    assert sum(len(block) for block, _ in blocks.waiting) <= 64 * MIB


def test_gives_up_blocks_that_nobody_asks_for(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "_PATIENCE", 4)
    make(64)
    for _ in range(6):
        make(8)
    blocks.collect()
    assert [len(block) // MIB for block, _ in blocks.waiting] == [8]


def test_threads_share_nothing(blocks: Blocks) -> None:
    def work(value: int) -> bool:
        right = True
        for _ in range(20):
            tensor = make(4).fill_(value)
            gc.collect(0)
            right &= bool((tensor == value).all())
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert lent(blocks) == 0
