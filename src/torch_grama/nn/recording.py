"""Work that is recorded once as a CUDA graph and replayed, which saves the time of starting it."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import Module

_Result = TypeVar("_Result")


class Recording(Generic[_Result]):
    r"""A function without arguments that is recorded as a CUDA graph and replayed.

    The first calls run it as it is, on a side stream, as CUDA graphs ask for; the next records it,
    and every later one replays the record: the same kernels on the same memory. On a CPU it runs as
    it is.

    Args:
        run (callable): The function; what it returns lies in the same memory every time.
        device (torch.device): Where.
        pool (optional): Memory that it shares with others that never run at the same time.
            (default: :obj:`None`)
        warm_ups (int, optional): Calls before the one that is recorded. (default: :obj:`1`)
    """

    def __init__(
        self,
        run: Callable[[], _Result],
        device: torch.device,
        pool: Any = None,
        warm_ups: int = 1,
    ) -> None:
        self._run = run
        self._device = device
        self._pool = pool
        self._warm_ups = warm_ups
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: _Result

    def __call__(self) -> _Result:
        if self._device.type != "cuda":
            return self._run()
        if self._graph is not None:
            self._graph.replay()
            return self._result
        if self._warm_ups > 0:
            self._warm_ups -= 1
            return run_aside(self._run)
        graph = torch.cuda.CUDAGraph()
        _forget_earlier_calls()
        with torch.cuda.graph(graph, pool=self._pool):
            self._result = self._run()
        # recording runs nothing: the call itself is the first replay
        self._graph = graph
        graph.replay()
        return self._result


def _forget_earlier_calls() -> None:
    """Lets go of what a record must not share with calls before it."""
    # what autocast kept
    torch.clear_autocast_cache()
    # a dead graph of autograd, which would have gradients added on the stream of its own time
    gc.collect()
    # the workspaces of cuBLAS: torch keeps one a stream, takes it away with the first record that
    # used it (https://github.com/pytorch/pytorch/issues/193402), and others would go on writing to
    # it; a record that finds none makes one in its own memory
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()


def run_aside(run: Callable[[], _Result]) -> _Result:
    r"""Runs a function on a side stream of the device, as all that comes before a record must."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = run()
    torch.cuda.current_stream().wait_stream(stream)
    return result


def capture(model: Module, *example: Any, **named: Any) -> Callable[..., Tensor]:
    r"""Records the forward pass of a model as a CUDA graph, for many calls of the same sizes.

    A model of few layers spends most of its time in Python; a recording does not. Call the result
    like the model. It uses the current weights if they change in place, as an optimiser changes
    them.

    Args:
        model (Module): The model, in evaluation and on a CUDA device; on a CPU the result calls
            it as it is.
        *example: Arguments of a call.
        **named: Likewise, by name.

    Raises:
        ValueError: If the model is in training, whose steps ``trainer.capture`` records.

    Example:
        >>> from torch_grama import GRAMA, capture
        >>> model = GRAMA(7, 32, 2).eval()
        >>> x, edge_index = torch.randn(4, 7), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> fast = capture(model, x, edge_index)
        >>> fast(2 * x, edge_index).size()
        torch.Size([4, 2])
    """
    if model.training:
        raise ValueError(
            "Expected a model in evaluation (got one in training); call model.eval() first, or "
            "train with trainer.capture"
        )
    return _CapturedModel(model, inspect.signature(model.forward).bind(*example, **named).arguments)


class _CapturedModel:
    def __init__(self, model: Module, example: Mapping[str, Any]) -> None:
        self._signature = inspect.signature(model.forward)
        # a cached matrix belongs to the edges that it was made of
        self._edges_stay = any(
            getattr(getattr(module, "running", None), "cached", False) for module in model.modules()
        )
        self._example = dict(example)
        tensors = {name: value for name, value in example.items() if isinstance(value, Tensor)}
        # written to by every call, also by those outside of inference mode
        with torch.inference_mode(False):
            self._inputs = {name: value.detach().clone() for name, value in tensors.items()}
        self._seen = {name: (value, _count_writes(value)) for name, value in tensors.items()}
        device = next(iter(tensors.values())).device

        @torch.no_grad()
        def run() -> Tensor:
            given = {**self._example, **self._inputs}
            out: Tensor = model(**given)
            return out

        self._recording = Recording(run, device)
        for _ in range(2):
            self._recording()

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        given = self._signature.bind(*args, **kwargs).arguments
        if given.keys() != self._example.keys():
            raise ValueError(
                f"Expected the arguments of the example, {list(self._example)} (got {list(given)})"
            )
        for name, value in given.items():
            self._take(name, value)
        return self._recording().clone()

    def _take(self, name: str, value: Any) -> None:
        kept = self._inputs.get(name)
        if kept is None or not isinstance(value, Tensor):
            if kept is not None or value != self._example[name]:
                raise ValueError(f"Expected '{name}' of the example (got another value)")
            return
        # A tensor that nobody wrote to since the last call need not be copied again. Not all writes
        # are counted: NumPy's are not, nor those to tensors of inference mode.
        stays = self._edges_stay and name in ("edge_index", "edge_weight")
        all_counted = value.is_cuda and not value.is_inference()
        seen, writes = self._seen[name]
        if (stays or all_counted) and value is seen and writes == _count_writes(value):
            return
        if (value.size(), value.dtype, value.device) != (kept.size(), kept.dtype, kept.device):
            raise ValueError(
                f"Expected '{name}' like that of the example, {kept.dtype} {list(kept.size())} on "
                f"{kept.device} (got {value.dtype} {list(value.size())} on {value.device}); "
                f"capture the model again"
            )
        if stays:
            raise ValueError(
                f"Expected the very '{name}' of the example, whose matrix is cached (got another "
                f"tensor); build the model without cached=True for graphs that change"
            )
        kept.copy_(value.detach())
        self._seen[name] = value, _count_writes(value)


def _count_writes(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
