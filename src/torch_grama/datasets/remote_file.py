"""What is published about a file: its name, addresses, checksum and size."""

from __future__ import annotations

import hashlib
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

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
        r"""Compares a file with what is published about it.

        Args:
            path (Path): The file.

        Returns:
            What differs, in words, or :obj:`None` where nothing does.
        """
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
