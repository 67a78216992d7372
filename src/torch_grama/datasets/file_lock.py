"""A lock between processes, held as long as a ``with`` block runs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - systems without POSIX file locks
    fcntl = None  # type: ignore[assignment]

# A lock file of another machine is believed for this long after it was last written.
_FOREIGN_LOCK_SECONDS = 3600.0
_POLL_SECONDS = 0.2


@contextlib.contextmanager
def file_lock(
    path: Path, *, use_fcntl: bool | None = None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    r"""Waits until no other process holds the lock, holds it, and removes the lock file.

    Where the system has ``flock`` the kernel frees the lock of a process that died. Elsewhere the
    lock is a file that only one process can create; it names its owner, and a lock whose owner no
    longer runs is taken over.

    Args:
        path (Path): The lock file; its folder must exist.
        use_fcntl (bool, optional): Which of the two ways to use. (default: ``flock`` where the
            system and the file system have it)
        sleep (callable, optional): Called between two looks at a lock file that is held.
            (default: :obj:`time.sleep`)

    Raises:
        OSError: The lock file cannot be created.
    """
    handle: int | None = None
    if use_fcntl or (use_fcntl is None and fcntl is not None):
        handle = _acquire_flock(path)
    if handle is None:
        handle = _acquire_exclusive(path, sleep)
    try:
        yield
    finally:
        if sys.platform == "win32":  # an open file cannot be removed there
            os.close(handle)
            path.unlink(missing_ok=True)
        else:
            path.unlink(missing_ok=True)
            os.close(handle)


def _acquire_flock(path: Path) -> int | None:
    """Returns a locked descriptor, or ``None`` where the file system knows no locks."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some network file systems
            os.close(handle)
            path.unlink(missing_ok=True)
            return None
        except BaseException:
            os.close(handle)
            raise
        # The former owner removes the file before it lets go: a lock on a removed file is void.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)


def _acquire_exclusive(path: Path, sleep: Callable[[float], None]) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if not _take_away_stale(path):
                sleep(_POLL_SECONDS)
            continue
        os.write(handle, json.dumps([socket.gethostname(), os.getpid()]).encode())
        return handle


def _take_away_stale(path: Path) -> bool:
    """Removes the lock of an owner that is gone; true where the lock may be free now."""
    try:
        before = path.read_bytes()
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return True
    except PermissionError:  # being removed just now, on Windows
        return False
    if not _owner_is_gone(before, age):
        return False
    # Moving it aside first leaves exactly one winner among several processes that saw it stale.
    aside = path.with_name(f"{path.name}.{os.getpid()}.stale")
    try:
        path.rename(aside)
    except OSError:  # another process was faster, or the owner still has the file open (Windows)
        return False
    if aside.read_bytes() != before:  # a new owner had already replaced the stale one
        with contextlib.suppress(OSError):
            os.link(aside, path)
        aside.unlink()
        return False
    aside.unlink()
    return True


def _owner_is_gone(content: bytes, age: float) -> bool:
    try:
        host, pid = json.loads(content)
    except (ValueError, TypeError):
        return age > _POLL_SECONDS * 50  # created, but its owner died before writing its name
    if host != socket.gethostname() or not isinstance(pid, int):
        return age > _FOREIGN_LOCK_SECONDS
    if sys.platform == "win32":
        return True  # the rename that follows fails as long as the owner lives
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
