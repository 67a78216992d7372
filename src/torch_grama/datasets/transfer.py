"""One attempt to copy one address into one file."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

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
