"""Calls spread over a Ray."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from torch_grama.search.ray_session import ray_session

T = TypeVar("T")
Call = (
    tuple[Callable[..., T], Sequence[object]]
    | tuple[Callable[..., T], Sequence[object], Mapping[str, object]]
)
"""A function and its arguments, and those by name if there are any."""


def run_on_ray(
    calls: Sequence[Call[T]],
    address: str | None = None,
    cpus_per_call: float = 1,
    gpus_per_call: float = 0,
    retries: int = 2,
) -> Iterator[tuple[int, T | Exception]]:
    r"""Runs calls as tasks of Ray and yields what they return, or raise, as they finish.

    A worker that dies, killed from outside or for memory, is replaced and its call is made again.
    When the caller stops before the end, calls that have not finished are given up.

    Args:
        calls (sequence of tuple): Function and arguments of each; a third entry holds arguments
            by name.
        address (str, optional): Address of a cluster; left out, a local Ray is started and ended.
            (default: :obj:`None`)
        cpus_per_call (float, optional): Cores that a call takes. (default: :obj:`1`)
        gpus_per_call (float, optional): GPUs that a call takes. (default: :obj:`0`)
        retries (int, optional): How often a call is made again after its worker died.
            (default: :obj:`2`)

    Returns:
        Pairs of a call's place and its value; an exception of the call comes as a value, that of
        a worker that died for good as a :class:`ray.exceptions.RayError`.

    Raises:
        ValueError: There is less than a call takes.
    """
    with ray_session(address) as resources:
        import ray

        check_room(resources, cpus_per_call, gpus_per_call)
        # a call that raises does not kill its worker: only deaths are retried
        task: Any = ray.remote(
            num_cpus=cpus_per_call, num_gpus=gpus_per_call, max_retries=retries, max_calls=0
        )(_call)
        waiting = {}
        for place, (function, arguments, *named) in enumerate(calls):
            waiting[task.remote(function, arguments, dict(named[0]) if named else {})] = place
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                place = waiting.pop(done)
                try:
                    value = ray.get(done)
                except ray.exceptions.RayError as error:
                    value = error
                yield place, value
        finally:
            for left in waiting:
                ray.cancel(left, force=True)


def check_room(resources: Mapping[str, float], cpus: float, gpus: float) -> None:
    r"""Makes sure that there is as much as one trial or call takes.

    Args:
        resources (mapping): What there is.
        cpus (float): Cores that it takes.
        gpus (float): GPUs that it takes.

    Raises:
        ValueError: There is less.
    """
    for word, option, wanted in (("CPU", "cpus", cpus), ("GPU", "gpus", gpus)):
        there = resources.get(word, 0.0)
        if wanted > there:
            raise ValueError(
                f"Expected at most {there:g} {option}, which is what there is (got {wanted:g} for "
                f"one trial)"
            )


def _call(
    function: Callable[..., T], arguments: Sequence[object], named: Mapping[str, object]
) -> T | Exception:
    try:
        return function(*arguments, **named)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # its constructor takes something else than it keeps
            return RuntimeError(f"{type(error).__name__}: {error}")
        return error
