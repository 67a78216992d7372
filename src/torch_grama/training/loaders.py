"""Hands out batches in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch_geometric.data import Data

from torch_grama.datasets.task_data import Level
from torch_grama.training.graph_batch import GraphBatch
from torch_grama.training.packed_graphs import PackedGraphs

# Graphs that take more than this stay in the memory of the machine.
MAX_BYTES_ON_DEVICE = 2 * 2**30


class BatchSource(Protocol):
    r"""Where the batches of an epoch, or their plans, come from."""

    def __len__(self) -> int:
        r"""Batches an epoch."""
        ...

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        r"""Yields the batches of an epoch from number :obj:`start` on."""
        ...


class EpochLoader:
    r"""An iterable over the batches of the current epoch, which can start in the middle of one."""

    def __init__(self, source: BatchSource, current_epoch: Callable[[], int] = lambda: 0) -> None:
        self.source = source
        self._current_epoch = current_epoch
        self._served = 0
        self._start = 0

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Any]:
        # a generator: epoch and start are read when the first batch is asked for
        start, self._start = self._start, 0
        self._served = start
        for batch in self.source.batches(self._current_epoch(), start):
            self._served += 1
            yield batch
        self._served = 0

    def place(self, device: torch.device) -> None:
        r"""Says where batches are needed, see :meth:`GraphBatches.place`."""
        if isinstance(self.source, GraphBatches):
            self.source.place(device)

    def state_dict(self) -> dict[str, int]:
        r"""How many batches of the current epoch were handed out."""
        return {"served": self._served}

    def load_state_dict(self, state: dict[str, int]) -> None:
        r"""Lets the next iteration leave out the batches that were handed out before."""
        self._start = state["served"]


class FixedBatches:
    r"""The same batches every epoch, made once: a whole graph, or what is validated on."""

    def __init__(self, batches: Sequence[GraphBatch]) -> None:
        self._batches = list(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def batches(self, epoch: int, start: int) -> Iterator[GraphBatch]:
        r"""Yields the batches from number :obj:`start` on."""
        yield from self._batches[start:]

    def move(self, batch: GraphBatch, device: torch.device) -> GraphBatch | None:
        r"""Moves one of the batches to a device, for good; :obj:`None` if it is none of them."""
        for number, own in enumerate(self._batches):
            if own is batch:
                self._batches[number] = batch.to(device)
                return self._batches[number]
        return None


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    r"""Which samples make up each batch of an epoch."""

    num_samples: int  # number of samples
    batch_size: int  # samples a batch, over all processes
    seed: int = 0  # seed of the order
    shuffle: bool = False  # whether the order is drawn anew each epoch
    rank: int = 0  # number of this process
    world_size: int = 1  # number of processes

    def __len__(self) -> int:
        return -(-self.num_samples // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        r"""All samples of an epoch, in their order."""
        if self.shuffle:
            return torch.randperm(self.num_samples, generator=epoch_generator(self.seed, epoch))
        return torch.arange(self.num_samples)

    def parts(self, epoch: int, start: int = 0) -> list[Tensor]:
        r"""This process's share of each batch of an epoch from number :obj:`start` on.

        A batch smaller than the number of processes leaves some shares empty.
        """
        whole = self.order(epoch).split(self.batch_size)[start:]
        return [part[self.rank :: self.world_size] for part in whole]


class GraphBatches:
    r"""Mini-batches of graphs, which are read when the first batch is asked for, and once."""

    def __init__(
        self,
        graphs: Sequence[Data],
        numbers: Tensor,
        level: Level,
        plan: BatchPlan,
        *,
        each_graph_counts: bool = False,
        targets: bool = True,
        num_workers: int = 0,
    ) -> None:
        self._graphs = graphs
        self._numbers = numbers
        self._level = level
        self.plan = plan
        self._each_graph_counts = each_graph_counts
        self._targets = targets
        self._num_workers = num_workers
        self._pack: PackedGraphs | None = None
        self._place = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.plan)

    def place(self, device: torch.device) -> None:
        r"""Says where batches are needed. Graphs that take little of a CUDA device's memory lie
        there from the next batch on; others stay on the CPU, as they do for worker processes.
        """
        if device == self._place:
            return
        self._place = device
        if self._pack is not None:
            self._pack = self._placed(self._pack)

    def release(self) -> None:
        r"""Forgets the graphs that were read; they are read again when they are needed."""
        self._pack = None

    def batches(self, epoch: int, start: int) -> Iterator[GraphBatch]:
        r"""Yields the batches of an epoch from number :obj:`start` on."""
        parts = self.plan.parts(epoch, start)
        if self._num_workers == 0:
            for part in parts:
                yield self.batch(part)
            return
        _ = self.pack  # before there are workers, so that they share it
        # an own generator: the loader's draws must not move the model's random numbers
        yield from DataLoader(
            cast(Dataset[Tensor], parts),
            batch_size=None,
            collate_fn=self.batch,  # type: ignore[arg-type]  # of one part, as there is no batch size
            num_workers=self._num_workers,
            generator=torch.Generator().manual_seed(0),
        )

    def batch(self, part: Tensor) -> GraphBatch:
        r"""Lays some graphs side by side; none become one graph whose targets count nothing."""
        counts = part.numel() > 0
        batch = self.pack.batch(part if counts else torch.zeros(1, dtype=torch.long))
        if counts or batch.y is None:
            return batch
        return dataclasses.replace(batch, weight=torch.zeros(len(batch.y), device=batch.y.device))

    @property
    def pack(self) -> PackedGraphs:
        r"""The graphs, read when they are first asked for."""
        if self._pack is None:
            pack = PackedGraphs(
                (self._graphs[number] for number in self._numbers.tolist()),
                self._level,
                each_graph_counts=self._each_graph_counts,
                targets=self._targets,
            )
            self._pack = self._placed(pack)
        return self._pack

    def _placed(self, pack: PackedGraphs) -> PackedGraphs:
        if self._place.type != "cuda" or self._num_workers:
            return pack.to(torch.device("cpu"))
        limit = min(MAX_BYTES_ON_DEVICE, torch.cuda.mem_get_info(self._place)[0] // 4)
        return pack.to(self._place if pack.nbytes <= limit else torch.device("cpu"))


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    r"""Random numbers that belong to one epoch of one seed."""
    return torch.Generator().manual_seed(mix_seed(seed, epoch))


def mix_seed(*parts: int) -> int:
    r"""One seed from several numbers; neighbours of them give unrelated seeds."""
    mixed = 0
    for part in parts:
        # the finaliser of SplitMix64
        mixed = (mixed + part + 0x9E3779B97F4A7C15) % 2**64
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        mixed ^= mixed >> 31
    return mixed % 2**63
