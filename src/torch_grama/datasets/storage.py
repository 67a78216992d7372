"""Where the files of a data set lie: found locally, fetched whole and checked, prepared once."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from torch_grama.datasets.entry import DataFile, Entry, Source
from torch_grama.datasets.errors import DatasetError, DatasetMissingError, DownloadError
from torch_grama.runs.atomic_file import file_lock, publish

if TYPE_CHECKING:
    from torch_grama.datasets.compact import CompactFile

Report = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""

Progress = Callable[[int, int | None], None]
_LONGEST_WAIT = 60.0
_CHUNK = 1 << 18
_SNIFF = 512
_RETRYABLE = frozenset({408, 425, 429})


class Storage:
    r"""The folders a load may use.

    Files are looked for in ``root``, then in the folder named by ``GRAMA_DATA``, then in the
    user's cache; only what is in none of them is fetched. Everything written (downloads, prepared
    forms, transforms) goes to ``root``, or else to the folder named by ``GRAMA_CACHE``, or else to
    ``~/.cache/torch_grama``. The folder of ``GRAMA_DATA`` is never written to.
    """

    def __init__(self, root: str | Path | None = None, report: Report | None = None) -> None:
        named, shared = os.environ.get("GRAMA_CACHE"), os.environ.get("GRAMA_DATA")
        fallback = Path(named).expanduser() if named else cache_folder()
        self.root = fallback if root is None else Path(root).expanduser()
        if shared and self.root.resolve() == Path(shared).expanduser().resolve():
            self.root = fallback
        self.report: Report = report or (lambda what, done, total: None)

    def find(self, file: DataFile) -> Path | None:
        r"""Returns the local copy of a file (or of a folder), if there is one."""
        places = (folder / file.path for folder in self._folders())
        return next((place for place in places if place.exists()), None)

    def get(self, file: DataFile, dataset: str) -> Path:
        r"""Returns a local copy of a published file as it is, or fetches it into ``root``."""
        found = self.find(file)
        if found is not None:
            return found
        label = file.name if file.md5 else f"{file.name} (no checksum is documented)"
        cause: DownloadError | None = None
        if os.environ.get("GRAMA_OFFLINE", "").strip().lower() not in ("", "0", "false", "no"):
            reason = "GRAMA_OFFLINE forbids the network"
        elif not file.urls:
            reason = "no address of it is published"
        else:
            try:
                return fetch(file, self.root, progress=partial(self.report, label))
            except DownloadError as error:
                reason, cause = str(error).removesuffix("."), error
        folders = ", ".join(f"'{folder}'" for folder in self._folders())
        again = f", or run `grama data get {dataset}` where there is a network" if file.urls else ""
        raise DatasetMissingError(
            f"'{file.path}' is in none of the folders {folders} and could not be fetched "
            f"({reason}): put the file at '{self.root / file.path}'{again}."
        ) from cause

    def find_source(self, sources: Sequence[Source]) -> tuple[Source, list[Path]] | None:
        r"""Returns the first readable source whose files are all here, with their paths."""
        for source in sources:
            found = [path for file in source.files if (path := self.find(file)) is not None]
            if len(found) == len(source.files) and not _missing_modules(source):
                return source, found
        return None

    def obtain(self, entry: Entry) -> tuple[Source, list[Path]]:
        r"""Returns a source of a data set and its files, fetching them if need be."""
        here = self.find_source(entry.sources)
        if here is not None:
            return here
        hint = ""  # what to install for files that are here but cannot be read as things are
        for source in entry.sources:
            missing = _missing_modules(source)
            if not hint and missing and all(self.find(file) for file in source.files):
                hint = (
                    f"Reading '{self.find(source.files[0])}' takes {' and '.join(missing)}, which "
                    "cannot be imported: run `pip install 'torch-grama[molecules]'`."
                )
        for source in entry.sources:
            public = all(file.urls or self.find(file) for file in source.files)
            if public and not _missing_modules(source):
                try:
                    return source, [self.get(file, entry.name) for file in source.files]
                except DatasetMissingError as error:
                    raise DatasetMissingError(f"{error} {hint}".strip()) from error.__cause__
        places = " or ".join(
            " and ".join(f"'{file.path}'" for file in source.files) for source in entry.sources
        )
        raise DatasetMissingError(
            hint
            or f"'{entry.name}' is not here and has no public address that can be read as "
            f"installed: put {places} into '{self.root}'."
        )

    def prepared(
        self, entry: Entry, version: int, build: Callable[[Source, list[Path]], CompactFile]
    ) -> CompactFile:
        r"""Returns a data set in its compact form, preparing it once.

        The prepared form is used as long as the files it was made from are unchanged, or gone, and
        the version of ``build`` is the same.
        """
        from torch_grama.datasets.compact import cached

        here = self.find_source(entry.sources)

        def make() -> CompactFile:
            source, paths = here or self.obtain(entry)
            return replace(build(source, paths), signature=_signature(source, paths))

        signature = None if here is None else _signature(*here)
        return cached(self.compact_path(f"{entry.name}-v{version}"), signature, make)

    def generated(self, key: str, build: Callable[[], CompactFile]) -> CompactFile:
        r"""Returns a generated data set, made once for a key of everything it depends on."""
        from torch_grama.datasets.compact import cached

        return cached(self.compact_path(key), key, build)

    def compact_path(self, key: str) -> Path:
        return self.root / "compact" / f"{key}.npz"

    def _folders(self) -> list[Path]:
        named = os.environ.get("GRAMA_DATA")
        return list(dict.fromkeys([self.root, *([Path(named)] if named else []), cache_folder()]))


def cache_folder() -> Path:
    r"""Returns the user's folder for fetched data, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "torch_grama"


def _missing_modules(source: Source) -> list[str]:
    return [name for name in source.modules if importlib.util.find_spec(name) is None]


def _signature(source: Source, paths: Sequence[Path]) -> str:
    """What a prepared form was made from: sizes and times tell a changed file cheaply."""
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return f"{source.name}: {stats}"


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


@dataclass(eq=False)
class _Failure(Exception):
    """Why one attempt failed, and what that means for the next one."""

    reason: str
    permanent: bool = False  # the same address cannot do better
    mismatch: bool = False  # a whole, fresh copy is not the published file
    retry_after: float = 0.0  # seconds that the server asks for


class _Download:
    def __init__(
        self, file: DataFile, target: Path, progress: Progress | None, timeout: float
    ) -> None:
        self.file, self.target, self.progress, self.timeout = file, target, progress, timeout
        self.partial = target.with_name(f".{file.name}.part")
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
                    reasons[url] = failure.reason
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

    def _open(self, url: str, offset: int) -> HTTPResponse:
        headers = {"User-Agent": "torch-grama", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        redirects = _SafeRedirects()
        opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), redirects)
        try:
            request = Request(url, headers=headers)
            response: HTTPResponse = opener.open(request, timeout=self.timeout)
            self.announced = redirects.announced
            return response
        except HTTPError as error:
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
        except (OSError, HTTPException, ValueError) as error:
            raise self._connection_failure(error) from error

    def _receive(self, response: HTTPResponse, offset: int) -> bool:
        """Writes an answer into the partial file; says whether it goes on where that ended."""
        size = self.file.size
        span = response.headers.get("Content-Range") or ""
        resumed = response.status == 206 and span.startswith(f"bytes {offset}-")
        if response.status == 206 and not resumed:
            self.partial.unlink()
            raise _Failure("the server sent another part of the file than was asked for")
        done = offset if resumed else 0
        length = response.length  # None for a chunked answer
        total = None if length is None else done + length
        chunk = self._read(response.read, _SNIFF)  # enough to tell what it is
        head = chunk.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        is_page = head.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))
        page_allowed = self.file.name.lower().endswith((".html", ".htm"))
        if not resumed and not page_allowed and is_page:
            raise _Failure("the server sent a web page instead of the file", permanent=True)
        if size is not None and total is not None and total != size:
            raise _Failure(
                f"the server offers {total} bytes where {size} are published", permanent=True
            )
        # Unbuffered: what arrived is kept when the connection dies.
        with self.partial.open("ab" if resumed else "wb", buffering=0) as stream:
            while chunk:
                stream.write(chunk)
                done += len(chunk)
                if size is not None and done > size:
                    raise _Failure(
                        f"the server sent more than the published {size} bytes", permanent=True
                    )
                if self.progress is not None:
                    self.progress(done, size if total is None else total)
                chunk = self._read(response.read1, _CHUNK)
        if total is not None and done < total:
            raise _Failure(f"the connection ended after {done} of {total} bytes")
        return resumed

    def _read(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except (OSError, HTTPException) as error:
            raise self._connection_failure(error) from error

    def _connection_failure(self, error: Exception) -> _Failure:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _Failure(
                f"the certificate of the server was not accepted ({cause.verify_message})",
                permanent=True,
            )
        if isinstance(cause, TimeoutError):
            return _Failure(f"the server sent nothing for {self.timeout:g} s")
        if isinstance(cause, HTTPException):
            return _Failure(f"the connection broke ({type(cause).__name__})")
        return _Failure(f"the connection failed ({cause})")


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted to an open connection.

    A model hub says size and sha256 of a large file where it redirects to its store.
    """

    def __init__(self) -> None:
        self.announced: dict[str, str] = {}

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
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
