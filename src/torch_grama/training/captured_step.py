"""The training step on a whole graph, recorded once in a CUDA graph and replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import Optimizer

from torch_grama.training.graph_batch import GraphBatch

if TYPE_CHECKING:
    from torch_grama.training.task import GraphTask

_WARM_UP_STEPS = 3
_DTYPES = {"bf16": torch.bfloat16, "16": torch.float16}


class CapturedStep:
    r"""Forward pass, backward pass and optimiser step of one batch that never changes.

    The first steps run as they are, on a side stream, as CUDA graphs ask for; the next is recorded
    and every later one replays the record: the same kernels on the same memory.

    Args:
        gradient_clip (float, optional): Largest norm of the gradient.
        precision (str): ``"32"`` or ``"bf16"``.

    Raises:
        ValueError: If the precision needs a loss scale, which a record cannot change.
    """

    def __init__(self, gradient_clip: float | None, precision: str) -> None:
        if precision == "16":
            raise ValueError(
                "Expected 'trainer.precision' of '32' or 'bf16' with 'trainer.capture' (got '16'); "
                "set it to 'bf16'"
            )
        self._gradient_clip = gradient_clip
        self._dtype = _DTYPES.get(precision)
        self._warm_up_steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: GraphBatch | None = None
        self._sums: tuple[Tensor, Tensor] | None = None

    def run(self, task: GraphTask, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        r"""Runs one step.

        Args:
            task (GraphTask): Whose.
            batch (GraphBatch): The batch; the same object every time.

        Returns:
            tuple of Tensor: The sum of the loss over the targets before the step, and their weight.
        """
        optimizer = task.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, Optimizer)
        if self._batch is not batch:
            self._batch, self._graph, self._warm_up_steps = batch, None, 0
        if self._graph is not None:
            self._graph.replay()
            assert self._sums is not None
            return self._sums
        if self._warm_up_steps < _WARM_UP_STEPS:
            self._warm_up_steps += 1
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                sums = self._step(task, batch, optimizer)
            torch.cuda.current_stream().wait_stream(stream)
            return sums
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._sums = self._step(task, batch, optimizer)
        except RuntimeError as error:
            raise RuntimeError(
                "Expected a training step that never waits for the device with 'trainer.capture' "
                f"(got {str(error).splitlines()[0]}); build the model with "
                "Running(cached=True, check_input=False), or set trainer.capture to false"
            ) from error
        # recording runs nothing: the step itself is the first replay
        self._graph = graph
        graph.replay()
        return self._sums

    def _step(
        self, task: GraphTask, batch: GraphBatch, optimizer: Optimizer
    ) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=self._dtype, enabled=self._dtype is not None):
            total, weight = task.measure(batch)
        (total / weight.clamp(min=1e-12)).backward()
        if self._gradient_clip is not None:
            # without looking at the norm, which would wait for the device
            torch.nn.utils.clip_grad_norm_(
                task.model.parameters(), self._gradient_clip, foreach=True
            )
        optimizer.step()
        return total.detach(), weight.detach()
