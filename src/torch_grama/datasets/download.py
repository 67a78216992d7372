"""Files from a local folder, or else from the network: checked, whole, and fetched once."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torch_grama.datasets.atomic_file import publish
from torch_grama.datasets.errors import DatasetError, DatasetMissingError, DownloadError
from torch_grama.datasets.file_lock import file_lock
from torch_grama.datasets.transfer import Progress, TransferError, transfer

__all__ = ["RemoteFile", "cache_folder", "fetch", "locate", "obtain"]

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
        with file_lock(target):
            if not _is_complete(file, target):
                _fetch_locked(file, target, progress, timeout, attempts, sleep)
    except OSError as error:  # those of the network have become a DownloadError
        raise DatasetError(
            f"Cannot write into '{target.parent}' ({error.strerror or error}): choose a folder "
            f"that is writable and has room, with 'root'."
        ) from error
    return target


def locate(relative: str, root: Path | None = None) -> Path | None:
    r"""Finds a file or folder without the network."""
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
    r"""Returns the user's folder for fetched data, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
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


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class RemoteFile:
    r"""A published file: what it is called, where it lies and how to know it.

    Attributes:
        name: The name it gets on disk, without a folder.
        urls: Its addresses, the preferred one first; empty where it cannot be fetched. An address
            without encryption needs a checksum.
        sha256: Its published SHA-256, in hexadecimal digits.
        md5: Its published MD5, where there is no better checksum.
        size: Its published number of bytes.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name in (".", "..") or set(self.name) & set("/\\\0"):
            raise ValueError(f"Expected 'name' to be a plain file name (got {self.name!r})")
        for length, word in ((64, "sha256"), (32, "md5")):
            digest = getattr(self, word)
            if digest is not None and (
                len(digest) != length or set(digest.lower()) - set("0123456789abcdef")
            ):
                raise ValueError(
                    f"Expected '{word}' of '{self.name}' to be {length} hexadecimal digits "
                    f"(got {digest!r})"
                )
        for url in self.urls:
            parts = urllib.parse.urlsplit(url)
            open_allowed = self.is_checkable or parts.hostname in _LOOPBACK
            if parts.scheme != "https" and not (parts.scheme == "http" and open_allowed):
                raise ValueError(
                    f"Expected an 'https' address for '{self.name}', or 'http' together with a "
                    f"checksum (got {url!r})"
                )

    @property
    def is_checkable(self) -> bool:
        """Whether a checksum is published."""
        return self.sha256 is not None or self.md5 is not None

    def find_fault(self, path: Path) -> str | None:
        r"""Compares a file with what is published about it."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size} bytes where {self.size} are published"
        if size == 0 and not self.is_checkable:
            return "it is empty"
        for word in ("sha256", "md5"):
            expected = getattr(self, word)
            if expected is not None:
                with path.open("rb") as stream:
                    found = hashlib.file_digest(stream, word).hexdigest()
                return (
                    None if found == expected.lower() else f"its {word} is {found}, not {expected}"
                )
        return None
