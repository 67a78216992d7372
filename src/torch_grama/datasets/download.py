"""Files from a local folder, or else from the network: checked, whole, and fetched once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from torch_grama.datasets.atomic_file import publish
from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.errors import DatasetError, DatasetMissingError, DownloadError
from torch_grama.datasets.file_lock import file_lock
from torch_grama.datasets.transfer import Progress, TransferError, transfer

_LONGEST_WAIT = 60.0


def fetch(
    file: DataFile,
    root: Path,
    *,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    r"""Brings a published file into its place below a folder.

    A file that is there and has the published checksum is left as it is. Otherwise the addresses
    are tried in turn, several rounds with growing pauses; the bytes go into a hidden partial file
    which is continued where the server can do so, checked, flushed and renamed. Only a file with a
    checksum is continued, since the joint could not be checked otherwise. Of two processes that
    ask for the same file, one fetches and the other waits for its result.
    """
    target = root / file.path
    if _is_complete(file, target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(target):
            if not _is_complete(file, target):
                _fetch_locked(file, target, progress, timeout, attempts, sleep)
    except OSError as error:  # those of the network have become a DownloadError
        raise DatasetError(
            f"Cannot write into '{target.parent}' ({error.strerror or error}): choose a folder "
            f"that is writable and has room, with 'root'."
        ) from error
    return target


def locate(relative: str, root: Path) -> Path | None:
    r"""Finds a file or folder without the network."""
    candidates = (folder / relative for folder in _local_folders(root))
    return next((candidate for candidate in candidates if candidate.exists()), None)


def obtain(
    file: DataFile,
    root: Path,
    dataset: str,
    *,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    r"""Returns a local copy of a published file, fetching it only where there is none.

    The folder ``root``, the folder named by ``GRAMA_DATA`` and :func:`cache_folder` win over the
    network, in this order, and a file found there is taken as it is. A fetched file goes into
    ``root``: the folder of ``GRAMA_DATA`` is only read.
    """
    found = locate(file.path, root)
    if found is not None:
        return found
    cause: DownloadError | None = None
    if _is_offline():
        reason = "GRAMA_OFFLINE forbids the network"
    elif not file.urls:
        reason = "no address of it is published"
    else:
        try:
            return fetch(file, root, progress=progress, sleep=sleep)
        except DownloadError as error:
            reason, cause = str(error).removesuffix("."), error
    folders = ", ".join(f"'{folder}'" for folder in _local_folders(root))
    again = f", or run `grama data get {dataset}` where there is a network" if file.urls else ""
    raise DatasetMissingError(
        f"'{file.path}' is in none of the folders {folders} and could not be fetched ({reason}): "
        f"put the file at '{root / file.path}'{again}."
    ) from cause


def cache_folder() -> Path:
    r"""Returns the user's folder for fetched data, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "torch_grama"


def _fetch_locked(
    file: DataFile,
    target: Path,
    progress: Progress | None,
    timeout: float,
    attempts: int,
    sleep: Callable[[float], None],
) -> None:
    partial = target.with_name(f".{file.name}.part")
    reasons: dict[str, str] = {}
    mismatches: dict[str, int] = {}
    live = list(file.urls)
    for round_ in range(attempts):
        wait = 0.0
        for url in tuple(live):
            try:
                _attempt(file, url, partial, progress, timeout)
            except TransferError as failure:
                reasons[url] = failure.reason
                wait = max(wait, failure.retry_after)
                fresh_mismatch = isinstance(failure, _Mismatch)
                mismatches[url] = mismatches.get(url, 0) + fresh_mismatch
                if failure.permanent or mismatches[url] > 1:
                    live.remove(url)
            else:
                publish(partial, target)
                return
        if not live:
            break
        if round_ + 1 < attempts:
            sleep(min(max(wait, 2.0**round_), _LONGEST_WAIT))
    if file.md5 is None:
        partial.unlink(missing_ok=True)
    raise DownloadError(
        f"Could not fetch '{file.name}': "
        + "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
        + f". Try again later, or put the file at '{target}' by hand."
    )


class _Mismatch(TransferError):
    """A whole, fresh copy that is not the published file."""


def _attempt(
    file: DataFile, url: str, partial: Path, progress: Progress | None, timeout: float
) -> None:
    if file.md5 is None:
        partial.unlink(missing_ok=True)
    elif partial.exists() and file.size is not None and partial.stat().st_size >= file.size:
        if file.find_fault(partial) is None:
            return
        partial.unlink()
    resumed = transfer(
        url,
        partial,
        size=file.size,
        page_allowed=file.name.lower().endswith((".html", ".htm")),
        timeout=timeout,
        progress=progress,
    )
    fault = file.find_fault(partial)
    if fault is None:
        return
    partial.unlink()
    if resumed:
        raise TransferError(f"the continued file is not the published one: {fault}")
    raise _Mismatch(f"the file is not the published one: {fault}")


def _is_complete(file: DataFile, target: Path) -> bool:
    return target.is_file() and file.find_fault(target) is None


def _is_offline() -> bool:
    return os.environ.get("GRAMA_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def _local_folders(root: Path) -> list[Path]:
    named = os.environ.get("GRAMA_DATA")
    return list(dict.fromkeys([root, *([Path(named)] if named else []), cache_folder()]))
