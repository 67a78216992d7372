"""Reads files that anyone may have written: inside one folder, up to a size, as data alone."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import IO, Any

from torch_grama.runs.run_folder import LIMITS, RunError
from torch_grama.runs.words import clip, format_bytes


def open_inside(folder: Path, name: str, limit: int | None) -> IO[bytes]:
    r"""Opens a regular file whose true place is inside a folder; raises :class:`FileNotFoundError`
    where it is not there, a :class:`RunError` where it lies elsewhere, is no plain file, is larger
    than the limit or cannot be opened.
    """
    folder = folder.resolve()
    try:
        place = (folder / name).resolve()
        if not place.is_relative_to(folder):
            raise RunError(f"'{name}' leads out of its folder and is not read")
        # without a last link that appeared meanwhile
        return open_plain(place, limit, getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, RunError):
        raise
    except PlainFileError as error:
        raise RunError(f"'{name}' {error.strerror}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise RunError(f"'{name}' cannot be opened ({error})") from error


class PlainFileError(OSError):
    r"""Something is no regular file, or larger than is read."""


def open_plain(path: Path, limit: int | None = None, flags: int = 0) -> IO[bytes]:
    r"""Opens a regular file up to a size: not a pipe or a device, which may never end."""
    # without waiting for the writer of a pipe
    flags |= os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    facts = os.fstat(handle)
    fault = ""
    if not stat.S_ISREG(facts.st_mode):
        fault = "is no plain file and is not read"
    elif limit is not None and facts.st_size > limit:
        size, most = format_bytes(facts.st_size), format_bytes(limit)
        fault = f"has {size}, more than the {most} that are read"
    if fault:
        os.close(handle)
        raise PlainFileError(errno.EINVAL, fault, str(path))
    return os.fdopen(handle, "rb")


def read_plain(path: Path, limit: int | None = None) -> bytes:
    r"""Reads a regular file; arguments and errors as in :func:`open_plain`."""
    with open_plain(path, limit) as stream:
        return stream.read()


def read_mapping(folder: Path, name: str) -> dict[str, object]:
    r"""Reads one of :obj:`LIMITS`, a JSON object or, from a ``.yaml`` file, a mapping of plain
    data; what is no UTF-8 becomes a sign of replacement. Raises :class:`FileNotFoundError` or
    :class:`RunError`.
    """
    with open_inside(folder, name, LIMITS[name]) as stream:
        text = stream.read(LIMITS[name] + 1).decode("utf-8", errors="replace")
    load, kind, whole = (
        (load_yaml, "YAML", "mapping") if name.endswith(".yaml") else (json.loads, "JSON", "object")
    )
    try:
        value = load(text)
    except (ValueError, RecursionError) as error:
        reason = clip(" ".join(str(error).split()) or type(error).__name__, 161)
        raise RunError(f"'{name}' holds no readable {kind} ({reason})") from error
    if not isinstance(value, dict):
        raise RunError(f"'{name}' holds no {kind} {whole} (got {type(value).__name__})")
    return value


def load_yaml(text: str) -> Any:
    r"""Reads YAML as plain data without aliases, which could grow without end; raises
    :class:`ValueError`, or :class:`RecursionError` where it is nested beyond all use.
    """
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read, write the values out")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader=PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
