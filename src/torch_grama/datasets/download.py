"""Files from a local folder, or else from the network: checked, whole, and fetched once."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from torch_grama.datasets.archive import extract
from torch_grama.datasets.atomic_file import publish
from torch_grama.datasets.errors import DatasetError, DatasetMissingError, DownloadError
from torch_grama.datasets.file_lock import file_lock
from torch_grama.datasets.remote_file import RemoteFile
from torch_grama.datasets.transfer import Progress, TransferError, transfer

__all__ = ["RemoteFile", "cache_folder", "extract", "fetch", "locate", "obtain"]

_LONGEST_WAIT = 60.0


def fetch(
    file: RemoteFile,
    folder: Path,
    *,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    r"""Brings a published file into a folder.

    A file that is there and has the published checksum is left as it is. Otherwise the addresses
    are tried in turn, several rounds with growing pauses; the bytes go into a hidden partial file
    which is continued where the server can do so, checked, flushed and renamed. Only a file with a
    checksum is continued, since the joint could not be checked otherwise. Of two processes that
    ask for the same file, one fetches and the other waits for its result.

    Args:
        file (RemoteFile): The file.
        folder (Path): Where it goes; created if need be.
        progress (callable, optional): Called with the bytes that are there and the expected total,
            which may be unknown. (default: :obj:`None`)
        timeout (float, optional): Seconds without a byte after which a server counts as stalled.
            (default: :obj:`30.0`)
        attempts (int, optional): Rounds over the addresses. (default: :obj:`4`)
        sleep (callable, optional): Waits between two rounds. (default: :obj:`time.sleep`)

    Returns:
        The path of the file.

    Raises:
        DownloadError: No address gave the published file.
        DatasetMissingError: The file is not there and ``GRAMA_OFFLINE`` forbids the network.
        DatasetError: The folder cannot be written to.
    """
    target = Path(folder) / file.name
    if _is_complete(file, target):
        return target
    if _is_offline():
        raise DatasetMissingError(
            f"'{target}' is not there and GRAMA_OFFLINE forbids the network: put the file there, "
            f"or unset GRAMA_OFFLINE."
        )
    if not file.urls:
        raise DownloadError(
            f"'{file.name}' is published under no address: put the file at '{target}' by hand."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(target.with_name(f".{file.name}.lock")):
            if not _is_complete(file, target):
                _fetch_locked(file, target, progress, timeout, attempts, sleep)
    except OSError as error:  # those of the network have become a DownloadError
        raise DatasetError(
            f"Cannot write into '{target.parent}' ({error.strerror or error}): choose a folder "
            f"that is writable and has room, with 'root'."
        ) from error
    return target


def locate(relative: str, root: Path | None = None) -> Path | None:
    r"""Finds a file or folder without the network.

    Args:
        relative (str): Where it lies inside a data folder, with forward slashes.
        root (Path, optional): The folder to look in first; then come the one named by
            ``GRAMA_DATA`` and :func:`cache_folder`. (default: :obj:`None`)

    Returns:
        The first that exists, or :obj:`None`.

    Raises:
        ValueError: :obj:`relative` is absolute or leads out of the folder.
    """
    parts = PurePosixPath(relative)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise ValueError(f"Expected a path inside a data folder (got {relative!r})")
    for folder in _local_folders(root):
        candidate = folder.joinpath(*parts.parts)
        if candidate.exists():
            return candidate
    return None


def obtain(
    file: RemoteFile,
    relative: str,
    root: Path | None = None,
    *,
    dataset: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    r"""Returns a local copy of a published file, fetching it only where there is none.

    The folder :obj:`root`, the folder named by ``GRAMA_DATA`` and :func:`cache_folder` win over
    the network, in this order, and a file found there is taken as it is. A fetched file goes into
    :obj:`root`, or else into :func:`cache_folder`: the folder of ``GRAMA_DATA`` is only read.

    Args:
        file (RemoteFile): The file.
        relative (str): Where it lies inside a data folder, with forward slashes; its last part is
            the name of the file.
        root (Path, optional): The data folder to look in first. (default: :obj:`None`)
        dataset (str, optional): The word by which ``grama data get`` fetches it. (default:
            :obj:`None`)
        progress (callable, optional): See :func:`fetch`.
        timeout (float, optional): See :func:`fetch`.
        attempts (int, optional): See :func:`fetch`.
        sleep (callable, optional): See :func:`fetch`.

    Returns:
        The path of the file.

    Raises:
        DatasetMissingError: There is no local copy and none could be fetched.
    """
    found = locate(relative, root)
    if found is not None:
        return found
    if PurePosixPath(relative).name != file.name:
        raise ValueError(f"Expected 'relative' to end in '{file.name}' (got {relative!r})")
    target = (cache_folder() if root is None else Path(root)) / relative
    try:
        return fetch(
            file,
            target.parent,
            progress=progress,
            timeout=timeout,
            attempts=attempts,
            sleep=sleep,
        )
    except (DownloadError, DatasetMissingError) as error:
        if _is_offline():
            reason = "GRAMA_OFFLINE forbids the network"
        elif not file.urls:
            reason = "no address of it is published"
        else:
            reason = str(error).removesuffix(".")
        raise DatasetMissingError(
            f"'{relative}' is in none of the folders {_spoken(_local_folders(root))} and could not "
            f"be fetched ({reason}): {_remedy(file, relative, target, dataset)}."
        ) from error


def cache_folder() -> Path:
    r"""Returns the user's folder for fetched data: ``XDG_CACHE_HOME`` (or ``~/.cache``) and the
    package's name."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "torch_grama"


def _fetch_locked(
    file: RemoteFile,
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
    if not file.is_checkable:
        partial.unlink(missing_ok=True)
    raise DownloadError(
        f"Could not fetch '{file.name}': "
        + "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
        + f". Try again later, or put the file at '{target}' by hand."
    )


class _Mismatch(TransferError):
    """A whole, fresh copy that is not the published file."""


def _attempt(
    file: RemoteFile, url: str, partial: Path, progress: Progress | None, timeout: float
) -> None:
    if not file.is_checkable:
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


def _is_complete(file: RemoteFile, target: Path) -> bool:
    return target.is_file() and file.find_fault(target) is None


def _is_offline() -> bool:
    return os.environ.get("GRAMA_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def _local_folders(root: Path | None) -> list[Path]:
    named = os.environ.get("GRAMA_DATA")
    folders = [Path(root)] if root is not None else []
    folders += [Path(named)] if named else []
    return list(dict.fromkeys([*folders, cache_folder()]))


def _spoken(folders: list[Path]) -> str:
    return ", ".join(f"'{folder}'" for folder in folders)


def _remedy(file: RemoteFile, relative: str, target: Path, dataset: str | None) -> str:
    by_hand = f"put the file at '{target}'"
    if not file.urls:
        return by_hand
    if dataset is not None:
        return f"{by_hand}, or run `grama data get {dataset}` where there is a network"
    command = f"curl -L --create-dirs -o {shlex.quote(str(target))} {shlex.quote(file.urls[0])}"
    return f"{by_hand}, or run `{command}` where there is a network"
