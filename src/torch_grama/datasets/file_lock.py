"""A lock between processes, held as long as a ``with`` block runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    r"""Waits until no other process holds the lock of a file, and leaves no lock file behind."""
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(path.parent))
    lock = path.with_name(f".{path.name}.lock")
    with FileLock(lock):
        try:
            yield
        finally:  # whoever waits for a removed file tries again; Windows keeps what is open
            with contextlib.suppress(PermissionError):
                lock.unlink(missing_ok=True)
