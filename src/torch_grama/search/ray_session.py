"""A Ray to work on: a local one that ends with the work, or a cluster that is joined."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from torch_grama.runs.run_folder import RunError
from torch_grama.runs.words import format_count

T = TypeVar("T")
Call = (
    tuple[Callable[..., T], Sequence[object]]
    | tuple[Callable[..., T], Sequence[object], Mapping[str, object]]
)
"""A function and its arguments, and those by name if there are any."""

# Read by Ray when it is imported or started: quiet, without network, and leaving files alone.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # our own folders are what is resumed from
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
}
# Processes of a local Ray whose driver was killed give up soon, and trials yield to no others: with
# Ray's niceness of 15, a sweep beside two busy processes on two cores takes minutes to begin.
_LOCAL_ENVIRONMENT = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_worker_niceness": "0",
}
_OBJECT_STORE = 100_000_000
"""Bytes of shared memory, which Ray wants no less of: settings and numbers pass through it."""
_PASSED_ON = ("GRAMA_DATA", "GRAMA_CACHE")
_PATIENCE = 60.0
"""Seconds in which a lost machine may come back."""
_BETWEEN = 5.0
"""Seconds between two looks at the machines."""


class RayAddressError(RunError):
    r"""There is no cluster at an address."""


class RayLostError(RunError):
    r"""No machine of Ray is left on which something could run."""


def count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - systems without affinity


@contextlib.contextmanager
def ray_session(address: str | None = None) -> Iterator[Mapping[str, float]]:
    r"""Starts a local Ray with the cores that are there, or joins a cluster, as long as a ``with``
    block runs, and says what there is: ``"CPU"``, ``"GPU"`` and others to their number.

    A Ray that is running already in this process is used and left as it is.
    """
    set_environment(address)
    import ray

    if ray.is_initialized():
        yield ray.cluster_resources()
        return
    # Ray's advice on its own files and tokens; what fails in a trial is in the trial's folder
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "configure_logging": False,
    }
    if address is None:
        options |= {
            # without this, the variable RAY_ADDRESS would be followed
            "address": "local",
            "num_cpus": count_cores(),
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE,
        }
    else:
        found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        options |= {"address": address, "runtime_env": {"env_vars": found} if found else None}
        check_address(address)
    try:
        ray.init(**options)
    except Exception as error:  # Ray raises also the plainest of all
        if address is not None:
            raise _no_cluster(address, error) from error
        reason = str(error).partition("\n")[0]
        raise RunError(f"Ray could not be started here ({reason}): try again") from error
    ended = threading.Event()
    head = ray.get_runtime_context().gcs_address
    patience = 0.0 if address is None else _PATIENCE / 2
    threading.Thread(target=_watch_head, args=(head, patience, ended), daemon=True).start()
    try:
        yield ray.cluster_resources()
    finally:
        ended.set()
        ray.shutdown()


def set_environment(address: str | None = None) -> None:
    r"""Sets what Ray reads as it is imported, unless the user did."""
    for name, value in (_ENVIRONMENT | (_LOCAL_ENVIRONMENT if address is None else {})).items():
        os.environ.setdefault(name, value)


def run_on_ray(
    calls: Sequence[Call[T]],
    address: str | None = None,
    cpus_per_call: float = 1,
    gpus_per_call: float = 0,
) -> Iterator[tuple[int, T | Exception]]:
    r"""Runs calls as tasks of Ray and yields what they return, or raise, as they finish.

    A worker that dies, killed from outside or for memory, is replaced and its call is made again,
    twice at most.
    When the caller stops before the end, calls that have not finished are given up.

    Args:
        calls (sequence of tuple): Function and arguments of each; a third entry holds arguments
            by name.
        address (str, optional): Address of a cluster; if none is given, a local Ray is started
            and ended.
            (default: :obj:`None`)
        cpus_per_call (float, optional): Cores that a call takes. (default: :obj:`1`)
        gpus_per_call (float, optional): GPUs that a call takes. (default: :obj:`0`)

    Returns:
        Pairs of a call's place and its value; an exception of the call comes as a value, that of
        a worker that died for good as a :class:`ray.exceptions.RayError`.

    Raises:
        ValueError: There is less than a call takes.
        RayLostError: The machines that had it are gone.
    """
    with ray_session(address) as resources:
        import ray

        check_room(resources, cpus_per_call, gpus_per_call)
        # a call that raises does not kill its worker: only deaths are retried
        task: Any = ray.remote(
            num_cpus=cpus_per_call, num_gpus=gpus_per_call, max_retries=2, max_calls=0
        )(_call)
        look = watch_machines(cpus_per_call, gpus_per_call)
        waiting = {task.remote(*call): place for place, call in enumerate(calls)}
        try:
            while waiting:
                finished, _ = ray.wait(list(waiting), num_returns=1, timeout=_BETWEEN)
                look()
                for done in finished:
                    place = waiting.pop(done)
                    try:
                        value = ray.get(done)
                    except ray.exceptions.RayError as error:
                        value = error
                    yield place, value
        finally:
            for left in waiting:
                ray.cancel(left, force=True)


def check_address(address: str) -> None:
    r"""Makes sure that something answers at ``HOST:PORT``, where Ray itself would end the process;
    other forms are left to Ray.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def check_room(resources: Mapping[str, float], cpus: float, gpus: float) -> None:
    r"""Makes sure that there is as much as one trial or call takes."""
    for word, option, wanted in (("CPU", "cpus", cpus), ("GPU", "gpus", gpus)):
        there = resources.get(word, 0.0)
        if wanted > there:
            raise ValueError(
                f"Expected at most {there:g} {option}, which is what there is (got {wanted:g} for "
                f"one trial)"
            )


def watch_machines(cpus: float, gpus: float) -> Callable[[], None]:
    r"""Returns what is to be called again and again while something is waited for that takes so
    many cores and GPUs; it raises a :class:`RayLostError` once no machine has had them for a
    minute. Ray itself would wait without end for a machine that died.
    """
    import ray

    seen = looked = time.monotonic()

    def look() -> None:
        nonlocal seen, looked
        now = time.monotonic()
        if now - looked < _BETWEEN:
            return
        looked = now
        for machine in ray.nodes():
            there = machine["Resources"] if machine["Alive"] else {}
            if there.get("CPU", 0.0) >= cpus and there.get("GPU", 0.0) >= gpus and there:
                seen = now
        if now - seen > _PATIENCE:
            raise RayLostError(
                f"Ray has lost the machines: for {now - seen:.0f} seconds none had "
                f"{format_count(cpus, 'core')} and {format_count(gpus, 'GPU')} for one trial: see "
                f"to them, and give the same command again (a sweep goes on with `--resume`)"
            )

    return look


def _watch_head(address: str, patience: float, ended: threading.Event) -> None:
    """Ends this process with a sentence when Ray's head has refused to answer for a while. All
    that calls Ray waits for it then, until Ray ends the process in its own words.
    """
    host, _, port = address.rpartition(":")
    seen = time.monotonic()
    while not ended.wait(_BETWEEN / 2):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except ConnectionRefusedError:
            if time.monotonic() - seen < patience or ended.is_set():
                continue
            show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
            sys.stderr.write(
                f"\n{show_cursor}grama: Ray's head at {address} is gone (`gcs_server`, ended from "
                f"outside or for memory): give the same command again (a sweep goes on with "
                f"`--resume`).\n"
            )
            sys.stderr.flush()
            os._exit(1)
        except OSError:  # slow, or not reached from here
            pass
        seen = time.monotonic()


def _no_cluster(address: str, error: Exception) -> RayAddressError:
    reason = str(error).partition("\n")[0]
    return RayAddressError(
        f"There is no Ray cluster at '{address}' ({reason}): give the address that `ray start "
        f"--head` printed, or leave it out for a local Ray"
    )


def _call(
    function: Callable[..., T], arguments: Sequence[object], named: Mapping[str, object] = {}
) -> T | Exception:
    try:
        return function(*arguments, **named)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # its constructor takes something else than it keeps
            return RuntimeError(f"{type(error).__name__}: {error}")
        return error
