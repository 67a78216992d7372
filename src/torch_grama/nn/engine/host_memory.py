"""Large host tensors in memory that is used again.

The allocator of the C library hands blocks of this size back to the system whenever one is freed,
so that every new one is made of pages that must be found and cleared at first touch; for sequences
of states this takes as long as the arithmetic. Here a freed block waits for the next tensor of
about its size, and while it waits, the system may take its pages as soon as anybody needs them.
"""

from __future__ import annotations

import math
import mmap
import sys
import weakref
from collections import deque
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import torch
from torch import Tensor

_HUGE_PAGE = 2 << 20
# A block that waits while so many others are lent is given up.
_PATIENCE = 128


def new_empty(like: Tensor, *size: int) -> Tensor:
    r"""Returns an uninitialised contiguous tensor, whose memory serves nobody else as long as it, a
    view of it or a graph of autograd is there.
    """
    num_bytes = math.prod(size) * like.element_size()
    if sys.platform != "linux":
        return like.new_empty(size)
    # .data: shares the memory, and is no view that autograd would have to follow
    return torch.from_numpy(_blocks.lend(num_bytes)).view(like.dtype).view(size).data


@dataclass(eq=False)
class Blocks:
    r"""Blocks of memory that are lent and come back; those lent and those that wait (longest first,
    each with the loan it waits since) are together never larger than those lent once were.
    """

    waiting: list[tuple[mmap.mmap, int]] = field(default_factory=list)
    lent_bytes: int = 0
    _most_bytes: int = 0
    _num_loans: int = 0
    # An array may die at any moment, in any thread, even inside lend: this needs no lock.
    _returned: deque[mmap.mmap] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def lend(self, num_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        r"""Returns bytes whose block comes back when the array dies."""
        # sizes that differ by a little share blocks; whole huge pages
        step = max(_HUGE_PAGE, 1 << (num_bytes.bit_length() - 4))
        size = -(-num_bytes // step) * step
        with self._lock:
            self.collect()
            self._num_loans += 1
            block = self._find(size)
            self.lent_bytes += size if block is None else len(block)
            self._most_bytes = max(self._most_bytes, self.lent_bytes)
            self._give_up()
        if block is None:
            block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            _advise(block, mmap.MADV_HUGEPAGE)
        array = np.frombuffer(block, dtype=np.uint8, count=num_bytes)
        weakref.finalize(array, self._take_back, block).atexit = False
        return array

    def collect(self) -> None:
        r"""Puts the blocks that came back among those that wait."""
        while self._returned:
            block = self._returned.popleft()
            self.lent_bytes -= len(block)
            self.waiting.append((block, self._num_loans))

    def _take_back(self, block: mmap.mmap) -> None:
        _advise(block, mmap.MADV_FREE)
        self._returned.append(block)

    def _find(self, size: int) -> mmap.mmap | None:
        # the smallest that is not much too large; of several, the one used last, of which most
        # lies in the caches
        fitting = [
            (len(block), -index)
            for index, (block, _) in enumerate(self.waiting)
            if size <= len(block) <= 2 * size
        ]
        return self.waiting.pop(-min(fitting)[1])[0] if fitting else None

    def _give_up(self) -> None:
        waiting_bytes = sum(len(block) for block, _ in self.waiting)
        while self.waiting:
            block, since = self.waiting[0]
            fits = self.lent_bytes + waiting_bytes <= self._most_bytes
            if fits and self._num_loans - since <= _PATIENCE:
                return
            waiting_bytes -= len(block)
            del self.waiting[0]


def _advise(block: mmap.mmap, advice: int) -> None:
    try:
        block.madvise(advice)
    except OSError:
        # a kernel built without it: slower, or its pages stay
        return


_blocks = Blocks()
