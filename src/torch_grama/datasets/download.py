"""Files from a local folder, or else from the network: checked, whole, and fetched once."""

from __future__ import annotations

import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.errors import DatasetError, DatasetMissingError, DownloadError
from torch_grama.datasets.file_lock import file_lock
from torch_grama.runs.atomic_file import publish

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


Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 18
_SNIFF = 512
_RETRYABLE = frozenset({408, 425, 429})


class TransferError(Exception):
    r"""Why one attempt failed."""

    def __init__(self, reason: str, permanent: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent
        self.retry_after = retry_after


class _Mismatch(TransferError):
    """A whole, fresh copy that is not the published file."""


def transfer(
    url: str,
    partial: Path,
    *,
    size: int | None,
    page_allowed: bool,
    timeout: float,
    progress: Progress | None,
) -> bool:
    r"""Copies an address into a file, going on where the file ends if the server can."""
    offset = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "torch-grama", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and offset:  # there is nothing behind what we have
            partial.unlink()
            raise TransferError("the server refused to continue the partial file") from error
        raise _status_failure(error) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _connection_failure(error, timeout) from error
    with response:
        resumed = response.status == 206 and _range_start(response) == offset
        if response.status == 206 and not resumed:
            partial.unlink()
            raise TransferError("the server sent another part of the file than was asked for")
        start = offset if resumed else 0
        length = response.length  # None for a chunked answer
        total = None if length is None else start + length
        head = b"" if resumed else _read_head(response, timeout)
        if not page_allowed and _is_page(head):
            raise TransferError("the server sent a web page instead of the file", permanent=True)
        if size is not None and total is not None and total != size:
            raise TransferError(
                f"the server offers {total} bytes where {size} are published", permanent=True
            )
        done = _write(response, partial, head, start, total, size, timeout, progress)
    if total is not None and done < total:
        raise TransferError(f"the connection ended after {done} of {total} bytes")
    return resumed


def _write(
    response: http.client.HTTPResponse,
    partial: Path,
    head: bytes,
    start: int,
    total: int | None,
    size: int | None,
    timeout: float,
    progress: Progress | None,
) -> int:
    done = start
    # Unbuffered: every byte that arrived is kept when the connection dies.
    with partial.open("ab" if start else "wb", buffering=0) as stream:
        chunk = head or _read(response, timeout)
        while chunk:
            stream.write(chunk)
            done += len(chunk)
            if size is not None and done > size:
                raise TransferError(
                    f"the server sent more than the published {size} bytes", permanent=True
                )
            if progress is not None:
                progress(done, total if total is not None else size)
            chunk = _read(response, timeout)
    return done


def _read(response: http.client.HTTPResponse, timeout: float) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _connection_failure(error, timeout) from error


def _read_head(response: http.client.HTTPResponse, timeout: float) -> bytes:
    head = b""
    while len(head) < _SNIFF:
        chunk = _read(response, timeout)
        if not chunk:
            break
        head += chunk
    return head


def _is_page(head: bytes) -> bool:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _range_start(response: http.client.HTTPResponse) -> int | None:
    unit, _, span = (response.headers.get("Content-Range") or "").partition(" ")
    first = span.split("-")[0].strip()
    return int(first) if unit == "bytes" and first.isdecimal() else None


def _status_failure(error: urllib.error.HTTPError) -> TransferError:
    retryable = error.code >= 500 or error.code in _RETRYABLE
    wait = (error.headers.get("Retry-After") or "") if error.headers else ""
    return TransferError(
        " ".join(f"the server answered {error.code} {error.reason}".split()),
        permanent=not retryable,
        retry_after=float(wait) if wait.isdecimal() else 0.0,
    )


def _connection_failure(error: Exception, timeout: float) -> TransferError:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TransferError(
            f"the certificate of the server was not accepted ({cause.verify_message})",
            permanent=True,
        )
    if isinstance(cause, TimeoutError):
        return TransferError(f"the server sent nothing for {timeout:g} s")
    if isinstance(cause, http.client.HTTPException):
        return TransferError(f"the connection broke ({type(cause).__name__})")
    return TransferError(f"the connection failed ({cause})")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted to an open connection."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        if scheme != "https" and scheme != req.type:
            raise TransferError(
                f"the server redirects to '{newurl}', which is not encrypted", permanent=True
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    context = ssl.create_default_context()
    return urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), _SafeRedirects()
    )
