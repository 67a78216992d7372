"""A Ray to work on: a local one that ends with the work, or a cluster that is joined."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from torch_grama.runs.run_folder import RunError

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
# Processes of a local Ray whose driver was killed give up soon.
_LOCAL_ENVIRONMENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
_OBJECT_STORE = 100_000_000
"""Bytes of shared memory, which Ray wants no less of: settings and numbers pass through it."""
_PASSED_ON = ("GRAMA_DATA", "GRAMA_CACHE")


def count_cores() -> int:
    r"""Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - systems without affinity


@contextlib.contextmanager
def ray_session(address: str | None = None) -> Iterator[Mapping[str, float]]:
    r"""Starts a local Ray with the cores that are there, or joins a cluster, as long as a ``with``
    block runs. A Ray that is running already in this process is used and left as it is.

    Args:
        address (str, optional): Address of a cluster. (default: :obj:`None`)

    Returns:
        What there is: ``"CPU"``, ``"GPU"`` and others to their number.

    Raises:
        RayAddressError: There is no cluster at the address.
    """
    environment = _ENVIRONMENT | (_LOCAL_ENVIRONMENT if address is None else {})
    for name, value in environment.items():
        os.environ.setdefault(name, value)
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
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address is None:
            raise
        raise _no_cluster(address, error) from error
    try:
        yield ray.cluster_resources()
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    r"""Makes sure that something answers at an address, where Ray itself would end the process.

    Args:
        address (str): ``HOST:PORT``; other forms are left to Ray.

    Raises:
        RayAddressError: Nothing does.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> RayAddressError:
    reason = str(error).partition("\n")[0]
    return RayAddressError(
        f"There is no Ray cluster at '{address}' ({reason}): give the address that `ray start "
        f"--head` printed, or leave it out for a local Ray"
    )


class RayAddressError(RunError):
    r"""There is no cluster at an address."""
