"""Steps that are recorded once as CUDA graphs and replayed: the host only says which batch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from torch_grama.nn.padding import NoChance, Padding, PaddingError, padded
from torch_grama.nn.recording import Recording, run_aside
from torch_grama.training.graph_batch import BatchSize, GraphBatch
from torch_grama.training.input_stage import InputChecks
from torch_grama.training.loaders import GraphBatches, PlannedBatch, PlannedBatches

if TYPE_CHECKING:
    from torch_grama.training.task import GraphTask

_Forward = tuple[Tensor, Tensor | None, Tensor | None]
# What a trial compares: numbers of the way forward, and gradients.
_Numbers = tuple[list[Tensor], list[Tensor]]
_DTYPES = {"bf16": torch.bfloat16}
# Recording takes about as long as some dozens of steps.
_FEWEST_STEPS = 100
# How far numbers with and without padding may lie apart, of the largest one; and in float64.
_TOLERANCE = 1e-3
_TOLERANCE_IN_FLOAT64 = 1e-7


def records_on(device: torch.device) -> bool:
    return device.type == "cuda"


def pays(device: torch.device, steps: int) -> bool:
    r"""Whether so many steps or forward passes are done sooner with a record."""
    return records_on(device) and steps >= _FEWEST_STEPS


class _Cursor:
    """Where in the order of an epoch the next batch begins, on the device."""

    def __init__(self, source: PlannedBatches) -> None:
        self._source = source
        device = source.pack.device
        self._order = torch.zeros(len(source.pack), dtype=torch.long, device=device)
        self._start = torch.zeros(1, dtype=torch.long, device=device)
        self._known_order: Tensor | None = None
        self._known_start = 0

    def seek(self, planned: PlannedBatch) -> None:
        """Says which batch is next; costs nothing if it is the one after the last."""
        if planned.order is not self._known_order:
            order = planned.order.pin_memory() if self._order.is_cuda else planned.order
            self._order.copy_(order, non_blocking=True)
            self._known_order = planned.order
        if planned.start != self._known_start:
            self._start.fill_(planned.start)
        self._known_start = planned.start + planned.size.graphs

    def take(self, bucket: BatchSize) -> tuple[GraphBatch, Padding]:
        """Makes the next batch and moves on, without the host."""
        places = self._start + torch.arange(bucket.graphs, device=self._start.device)
        numbers = self._order.index_select(0, places)
        self._start += bucket.graphs
        return self._source.pack.padded_batch(numbers, bucket)

    def skip(self) -> None:
        """Forgets where it stands: the batch was made elsewhere."""
        self._known_start = -1


class CapturedTraining:
    r"""Training steps in CUDA graphs: making the batch, forward and backward pass, clipping,
    optimiser and sums of the loss are one replay.

    Without a source there is one batch that never changes; :obj:`num_eager` counts the steps whose
    batch fitted no bucket, which ran without a record.
    """

    def __init__(
        self,
        task: GraphTask,
        source: PlannedBatches | None,
        gradient_clip: float | None,
        precision: str,
        device: torch.device,
        optimizer: Optimizer | None = None,
    ) -> None:
        self.num_eager = 0
        self._task = task
        self._gradient_clip = gradient_clip
        self._dtype = _DTYPES.get(precision)
        self._device = device
        self._optimizer = optimizer
        self._cursor = None if source is None else _Cursor(source)
        self._recordings: dict[BatchSize | None, Recording[None]] = {}
        self._pool = _memory_pool(device)
        # steps since the last look, and the first of them with a loss that is no finite number
        self._count = torch.zeros((), dtype=torch.long, device=device)
        self._failed_at = torch.full((), -1, dtype=torch.long, device=device)
        self._failed_loss = torch.zeros((), device=device)
        self._unchecked: list[PlannedBatch | GraphBatch] = []

    def run(self, batch: PlannedBatch | GraphBatch) -> None:
        self._unchecked.append(batch)
        if isinstance(batch, GraphBatch):
            self._recording(None, lambda: self._step(batch, None))()
            return
        assert self._cursor is not None
        if batch.bucket is None:
            self.num_eager += 1
            self._cursor.skip()
            step = partial(self._step, batch.make(), None)
            if self._device.type == "cuda":
                run_aside(step)
            else:
                step()
            return
        cursor, bucket = self._cursor, batch.bucket
        cursor.seek(batch)
        self._recording(bucket, lambda: self._step(*cursor.take(bucket)))()

    def find_failure(self) -> tuple[int, GraphBatch, Tensor] | None:
        r"""Looks, with a wait for the device, whether a loss was no finite number since the last
        look; from that step on, weights did not move. Returns how many steps ago it was, its batch,
        and the loss.
        """
        steps, self._unchecked = self._unchecked, []
        failed_at = int(self._failed_at)
        self._count.zero_()
        if failed_at < 0:
            return None
        batch = steps[failed_at]
        made = batch if isinstance(batch, GraphBatch) else batch.make()
        return len(steps) - failed_at, made, self._failed_loss

    def _recording(self, key: BatchSize | None, run: Callable[[], None]) -> Recording[None]:
        if key not in self._recordings:
            # the first step of all also makes the state of the optimiser
            warm_ups = 1 if self._recordings else 3
            self._recordings[key] = Recording(run, self._device, self._pool, warm_ups)
        return self._recordings[key]

    def _step(self, batch: GraphBatch, padding: Padding | None) -> None:
        task = self._task
        optimizer = self._optimizer or task.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, Optimizer)
        optimizer.zero_grad(set_to_none=True)
        with _autocast(self._device, self._dtype), _padded(padding):
            total, weight = task.measure(batch)
        (total / weight.clamp(min=1e-12)).backward()
        with torch.no_grad():
            fails = ~total.isfinite() & (self._failed_at < 0)
            self._failed_at.copy_(torch.where(fails, self._count, self._failed_at))
            self._failed_loss.copy_(torch.where(fails, total, self._failed_loss))
            self._count += 1
            # an optimiser that finds this set leaves everything as it is
            optimizer.found_inf = (self._failed_at >= 0).float()  # type: ignore[attr-defined]
        if self._gradient_clip is not None:
            # without looking at the norm, which would wait for the device
            clip_grad_norm_(task.model.parameters(), self._gradient_clip, foreach=True)
        optimizer.step()
        task.add_loss(total, weight)


class CapturedForward:
    r"""Forward passes in CUDA graphs, for validation, tests and predictions."""

    def __init__(self, task: GraphTask, source: PlannedBatches, precision: str = "32") -> None:
        self.source = source
        self._task = task
        self._dtype = _DTYPES.get(precision)
        self._cursor = _Cursor(source)
        self._device = source.pack.device
        self._recordings: dict[BatchSize, Recording[_Forward]] = {}
        self._pool = _memory_pool(self._device)

    def run(self, planned: PlannedBatch) -> _Forward:
        r"""The outputs that have targets, the targets, and what they count: tensors of their own,
        without padding.
        """
        bucket = planned.bucket
        if bucket is None:
            self._cursor.skip()
            batch = planned.make()
            with _autocast(self._device, self._dtype):
                return batch.select(self._task(batch)), batch.y, batch.weight
        self._cursor.seek(planned)
        if bucket not in self._recordings:
            self._recordings[bucket] = Recording(
                lambda: self._forward(bucket), self._device, self._pool
            )
        out, y, weight = self._recordings[bucket]()
        if y is None:
            is_node = out.size(0) == bucket.nodes
            return out[: planned.size.nodes if is_node else planned.size.graphs].clone(), None, None
        kept = slice(planned.size.targets)
        if not self.source.pack.weighs_targets:
            weight = None
        return out[kept].clone(), y[kept].clone(), None if weight is None else weight[kept].clone()

    def _forward(self, bucket: BatchSize) -> _Forward:
        batch, padding = self._cursor.take(bucket)
        with padded(padding), _autocast(self._device, self._dtype):
            return batch.select(self._task(batch)), batch.y, batch.weight


def try_whole_graph(task: GraphTask, batch: GraphBatch) -> None:
    r"""Raises a :class:`PaddingError` if steps on one batch for good cannot be recorded."""

    def learn_whole(batch: GraphBatch) -> _Numbers:
        return learn(batch, None)

    # the same step twice, whose gradients may differ by rounding
    with _trial(task) as learn, suppress(_GradientsDiffer):
        _try(task, [batch], learn_whole, learn_whole)


def plan_training(task: GraphTask, graphs: GraphBatches) -> PlannedBatches:
    r"""Plans batches of steps to record; an error where a trial shows that numbers change."""
    source = _plan(graphs)
    cursor, (bucket, examples) = _Cursor(source), _examples(source)

    def find(planned: PlannedBatch) -> _Numbers:
        cursor.seek(planned)
        return trial()

    try:
        with _trial(task) as learn:
            device = source.pack.device
            trial = Recording(lambda: learn(*cursor.take(bucket)), device, _memory_pool(device))
            _try(task, examples, find, lambda planned: learn(planned.make(), None))
    except _GradientsDiffer as error:
        # rounding turned a ReLU on or off, and its gradient with it, or padding changes them
        try:
            _try_in_float64(task, examples, cursor, bucket)
        except RuntimeError:
            raise error from None
    return source


def plan_forward(task: GraphTask, graphs: GraphBatches, precision: str = "32") -> CapturedForward:
    r"""Plans forward passes that will be recorded, after the trial of :func:`plan_training`."""
    captured = CapturedForward(task, _plan(graphs))
    with torch.no_grad():
        _try(
            task,
            _examples(captured.source)[1],
            lambda planned: ([captured.run(planned)[0]], []),
            lambda planned: ([captured.run(replace(planned, bucket=None))[0]], []),
        )
    return captured if precision == "32" else CapturedForward(task, captured.source, precision)


def _plan(graphs: GraphBatches) -> PlannedBatches:
    if graphs.pack.num_edges == 0:
        raise PaddingError("Expected graphs with edges (got none)")
    return PlannedBatches(graphs)


def _examples(source: PlannedBatches) -> tuple[BatchSize, list[PlannedBatch]]:
    """The most common bucket and three batches of it: one to run, one to record, one to replay."""
    planned = [batch for batch in source.batches(0, 0) if batch.bucket is not None]
    if not planned:
        raise PaddingError("Expected batches of two graphs, nodes and edges or more (got none)")
    buckets = [batch.bucket for batch in planned]
    common = max(source.buckets, key=buckets.count)
    fitting = [batch for batch in planned if batch.bucket == common]
    return common, [fitting[0], fitting[-1], fitting[len(fitting) // 2]]


@contextmanager
def _trial(task: GraphTask) -> Iterator[Callable[[GraphBatch, Padding | None], _Numbers]]:
    """Gives a training step that ends before the optimiser and leaves nothing behind."""
    state = {name: value.clone() for name, value in task.model.state_dict().items()}

    def learn(batch: GraphBatch, padding: Padding | None) -> _Numbers:
        with torch.no_grad():
            for name, value in task.model.state_dict().items():
                value.copy_(state[name])
        task.model.zero_grad(set_to_none=True)
        with NoChance(), _padded(padding):
            total, weight = task.measure(batch)
        (total / weight.clamp(min=1e-12)).backward()
        gradients = [p.grad for p in task.model.parameters() if p.grad is not None]
        buffers = [b for b in task.model.buffers() if b.is_floating_point()]
        return [total.detach(), weight.detach(), *buffers], gradients

    was_training = task.training
    task.train()
    try:
        yield learn
    finally:
        task.train(was_training)
        task.model.load_state_dict(state)
        task.model.zero_grad(set_to_none=True)


@contextmanager
def settled_norms(task: GraphTask, batch: GraphBatch) -> Iterator[None]:
    r"""Lets a model be judged with the statistics of a batch, and leaves nothing behind: with those
    that norms start with, the numbers of a deep model can grow until they show rounding alone.
    """
    norms = [m for m in task.modules() if hasattr(m, "running_mean") and hasattr(m, "momentum")]
    momenta = [norm.momentum for norm in norms]
    with _trial(task):
        try:
            for norm in norms:
                norm.momentum = 1.0  # type: ignore[assignment]
            with torch.no_grad(), NoChance():
                task.measure(batch)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
        task.eval()
        yield


_Batch = TypeVar("_Batch", GraphBatch, PlannedBatch)


class _GradientsDiffer(PaddingError):
    """All numbers are right but gradients."""


def _try(
    task: GraphTask,
    examples: list[_Batch],
    find: Callable[[_Batch], _Numbers],
    expect: Callable[[_Batch], _Numbers],
) -> None:
    """Compares what is recorded with what is not, on several batches."""
    checks = InputChecks(task.model)
    checks.set(False)
    difference = ""
    try:
        for number, batch in enumerate(examples):
            values, gradients = ([tensor.clone() for tensor in part] for part in expect(batch))
            # the first run is no record yet, so that a wait ends it without harm
            with _no_waits() if number == 0 else nullcontext():
                found_values, found_gradients = find(batch)
            _compare(found_values, values, _TOLERANCE)
            _compare(found_gradients, gradients, 1.0)
            try:
                _compare(found_gradients, gradients, _TOLERANCE)
            except PaddingError as error:
                difference = str(error)
        if difference:
            raise _GradientsDiffer(difference)
    except PaddingError:
        raise
    except RuntimeError as error:
        raise PaddingError(
            f"Expected a model that never waits for the device (got {str(error).splitlines()[0]})"
        ) from error
    finally:
        checks.set(True)


def _try_in_float64(
    task: GraphTask, examples: list[PlannedBatch], cursor: _Cursor, bucket: BatchSize
) -> None:
    """Compares steps with and without padding where rounding hardly ever turns a ReLU."""
    twin = copy.deepcopy(task).double()
    InputChecks(twin.model).set(False)
    with _trial(twin) as learn:
        for planned in examples:
            values, gradients = learn(_in_float64(planned.make()), None)
            expected = [tensor.clone() for tensor in (*values, *gradients)]
            cursor.seek(planned)
            batch, padding = cursor.take(bucket)
            values, gradients = learn(_in_float64(batch), padding)
            _compare([*values, *gradients], expected, _TOLERANCE_IN_FLOAT64)


def _in_float64(batch: GraphBatch) -> GraphBatch:
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
    wide = {name: value.double() for name, value in tensors.items() if value.is_floating_point()}
    return replace(batch, **wide)  # type: ignore[arg-type]


def _compare(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Raises an error if numbers differ by more than the order of sums explains."""
    sizes = [float(tensor.nan_to_num().abs().max()) for tensor in expected if tensor.numel()]
    largest = max(sizes, default=0.0)
    if [tensor.size() for tensor in found] != [tensor.size() for tensor in expected]:
        raise PaddingError("Expected outputs and gradients of the same sizes (got others)")
    for one, other in zip(found, expected, strict=True):
        if one.numel() == 0:
            continue
        # a gradient that is zero but for rounding is measured by the largest of all
        scale = max(float(other.nan_to_num().abs().max()), 1e-2 * largest)
        same = (one == other) | (one.isnan() & other.isnan())
        difference = float(torch.where(same, 0.0, one - other).abs().max())
        if not difference <= tolerance * scale:
            raise PaddingError(
                f"Expected the numbers of a batch without padding (got a difference of "
                f"{difference:.1e} where the largest is {scale:.1e})"
            )


@contextmanager
def _no_waits() -> Iterator[None]:
    """Makes an error of everything that waits for the device, which a record cannot."""
    if not torch.cuda.is_available():
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # torch says at every call that it does not know all operations that wait
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def _autocast(device: torch.device, dtype: torch.dtype | None) -> torch.autocast:
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def _padded(padding: Padding | None) -> AbstractContextManager[None]:
    return nullcontext() if padding is None else padded(padding)


def _memory_pool(device: torch.device) -> Any:
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None
