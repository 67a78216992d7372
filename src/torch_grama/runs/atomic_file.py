"""Files that are whole or not there, and a lock between the processes that write them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    r"""Writes a file under a temporary name and renames it, so that no reader sees half of it and
    an older one stays where that fails.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        # A private temporary file would otherwise stay unreadable to the user's colleagues.
        mask = os.umask(0o022)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        publish(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def publish(temporary: Path, path: Path) -> None:
    r"""Flushes a finished temporary file to the disk and gives it its final name, in the same
    folder.
    """
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
    temporary.replace(path)
    # Not every system lets a folder be opened; the rename itself is done all the same.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    r"""Waits until no other process holds the lock of a file, and leaves no lock file behind."""
    from filelock import FileLock

    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(path.parent))
    lock = path.with_name(f".{path.name}.lock")
    with FileLock(lock):
        try:
            yield
        finally:  # whoever waits for a removed file tries again; Windows keeps what is open
            with contextlib.suppress(PermissionError):
                lock.unlink(missing_ok=True)
