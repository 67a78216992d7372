"""Files from the network: checked, whole, and fetched once."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.errors import DatasetError, DownloadError
from torch_grama.runs.atomic_file import file_lock, publish

Progress = Callable[[int, int | None], None]

_LONGEST_WAIT = 60.0
_CHUNK = 1 << 18
_SNIFF = 512
_RETRYABLE = frozenset({408, 425, 429})


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
                _Download(file, target, progress, timeout).run(attempts, sleep)
    except OSError as error:  # those of the network have become a DownloadError
        raise DatasetError(
            f"Cannot write into '{target.parent}' ({error.strerror or error}): choose a folder "
            f"that is writable and has room, with 'root'."
        ) from error
    return target


def _is_complete(file: DataFile, target: Path) -> bool:
    return target.is_file() and file.find_fault(target) is None


class _Failure(Exception):
    """Why one attempt failed."""

    def __init__(
        self,
        reason: str,
        *,
        permanent: bool = False,  # the same address cannot do better
        mismatch: bool = False,  # a whole, fresh copy is not the published file
        retry_after: float = 0.0,  # seconds that the server asks for
    ) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.mismatch = mismatch
        self.retry_after = retry_after


class _Download:
    """Brings one file from one of its addresses to its place."""

    def __init__(
        self, file: DataFile, target: Path, progress: Progress | None, timeout: float
    ) -> None:
        self.file = file
        self.target = target
        self.partial = target.with_name(f".{file.name}.part")
        self.progress = progress
        self.timeout = timeout
        self.announced: dict[str, str] = {}  # what a hub says about the file it redirects to

    def run(self, attempts: int, sleep: Callable[[float], None]) -> None:
        reasons: dict[str, str] = {}
        mismatched: set[str] = set()
        live = list(self.file.urls)
        for round_ in range(attempts):
            wait = 0.0
            for url in tuple(live):
                try:
                    self._attempt(url)
                except _Failure as failure:
                    reasons[url] = str(failure)
                    wait = max(wait, failure.retry_after)
                    if failure.permanent or (failure.mismatch and url in mismatched):
                        live.remove(url)
                    if failure.mismatch:
                        mismatched.add(url)
                else:
                    publish(self.partial, self.target)
                    return
            if not live:
                break
            if round_ + 1 < attempts:
                sleep(min(max(wait, 2.0**round_), _LONGEST_WAIT))
        if self.file.md5 is None:
            self.partial.unlink(missing_ok=True)
        raise DownloadError(
            f"Could not fetch '{self.file.name}': "
            + "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
            + f". Try again later, or put the file at '{self.target}' by hand."
        )

    def _attempt(self, url: str) -> None:
        file, partial = self.file, self.partial
        if file.md5 is None:
            partial.unlink(missing_ok=True)
        elif partial.exists() and file.size is not None and partial.stat().st_size >= file.size:
            if file.find_fault(partial) is None:
                return
            partial.unlink()
        offset = partial.stat().st_size if partial.exists() else 0
        with self._open(url, offset) as response:
            resumed = self._receive(response, offset)
        fault = file.find_fault(partial) or _differs(partial, self.announced)
        if fault is not None:
            partial.unlink()
            what = "continued file" if resumed else "file"
            raise _Failure(f"the {what} is not the published one: {fault}", mismatch=not resumed)

    def _open(self, url: str, offset: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": "torch-grama", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        redirects = _SafeRedirects()
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context()), redirects
        )
        try:
            response: http.client.HTTPResponse = opener.open(
                urllib.request.Request(url, headers=headers), timeout=self.timeout
            )
            self.announced = redirects.announced
            return response
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and offset:  # there is nothing behind what we have
                self.partial.unlink()
                raise _Failure("the server refused to continue the partial file") from error
            wait = (error.headers.get("Retry-After") or "") if error.headers else ""
            raise _Failure(
                " ".join(f"the server answered {error.code} {error.reason}".split()),
                permanent=error.code < 500 and error.code not in _RETRYABLE,
                retry_after=float(wait) if wait.isdecimal() else 0.0,
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._connection_failure(error) from error

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> bool:
        """Writes an answer into the partial file; says whether it goes on where that ended."""
        size = self.file.size
        resumed = response.status == 206 and _range_start(response) == offset
        if response.status == 206 and not resumed:
            self.partial.unlink()
            raise _Failure("the server sent another part of the file than was asked for")
        done = offset if resumed else 0
        length = response.length  # None for a chunked answer
        total = None if length is None else done + length
        chunks = self._chunks(response)
        first = next(chunks, b"")
        page_allowed = self.file.name.lower().endswith((".html", ".htm"))
        if not resumed and not page_allowed and _is_page(first):
            raise _Failure("the server sent a web page instead of the file", permanent=True)
        if size is not None and total is not None and total != size:
            raise _Failure(
                f"the server offers {total} bytes where {size} are published", permanent=True
            )
        # Unbuffered: what arrived is kept when the connection dies.
        with self.partial.open("ab" if resumed else "wb", buffering=0) as stream:
            for chunk in itertools.chain([first], chunks):
                stream.write(chunk)
                done += len(chunk)
                if size is not None and done > size:
                    raise _Failure(
                        f"the server sent more than the published {size} bytes", permanent=True
                    )
                if self.progress is not None:
                    self.progress(done, size if total is None else total)
        if total is not None and done < total:
            raise _Failure(f"the connection ended after {done} of {total} bytes")
        return resumed

    def _chunks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        """The content, in pieces that are long enough to tell what it is."""
        gathered = b""
        try:
            while chunk := response.read1(_CHUNK):
                gathered += chunk
                if len(gathered) >= _SNIFF:
                    yield gathered
                    gathered = b""
        except (OSError, http.client.HTTPException) as error:
            raise self._connection_failure(error) from error
        if gathered:
            yield gathered

    def _connection_failure(self, error: Exception) -> _Failure:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _Failure(
                f"the certificate of the server was not accepted ({cause.verify_message})",
                permanent=True,
            )
        if isinstance(cause, TimeoutError):
            return _Failure(f"the server sent nothing for {self.timeout:g} s")
        if isinstance(cause, http.client.HTTPException):
            return _Failure(f"the connection broke ({type(cause).__name__})")
        return _Failure(f"the connection failed ({cause})")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted to an open connection.

    A model hub says size and sha256 of a large file where it redirects to its store.
    """

    def __init__(self) -> None:
        self.announced: dict[str, str] = {}

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
            raise _Failure(
                f"the server redirects to '{newurl}', which is not encrypted", permanent=True
            )
        for name in ("size", "etag"):
            if value := headers.get(f"X-Linked-{name}"):
                self.announced[name] = value.removeprefix("W/").strip('"')
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _differs(path: Path, announced: dict[str, str]) -> str | None:
    """What in a file differs from what a hub announces; its tag is a sha256 or says nothing."""
    size, tag = path.stat().st_size, announced.get("etag", "").lower()
    if announced.get("size", str(size)) != str(size):
        return f"it has {size} bytes where the hub announces {announced['size']}"
    if re.fullmatch("[0-9a-f]{64}", tag) is None:
        return None
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    return None if found == tag else f"its sha256 is {found}, not {tag}"


def _is_page(head: bytes) -> bool:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _range_start(response: http.client.HTTPResponse) -> int | None:
    unit, _, span = (response.headers.get("Content-Range") or "").partition(" ")
    first = span.split("-")[0].strip()
    return int(first) if unit == "bytes" and first.isdecimal() else None
