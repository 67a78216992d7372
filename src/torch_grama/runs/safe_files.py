"""Reads files that anyone may have written: inside one folder, up to a size, as data alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import IO, Any


class UnsafeFileError(ValueError):
    r"""A file that is not read; the message says which and why."""


def open_inside(folder: Path, name: str, limit: int | None) -> IO[bytes]:
    r"""Opens a regular file whose true place is inside a folder.

    Args:
        folder (Path): The folder.
        name (str): The file, relative to it.
        limit (int, optional): The largest size in bytes; :obj:`None` for any.

    Raises:
        FileNotFoundError: It is not there.
        UnsafeFileError: It lies elsewhere, is no plain file, is too large or cannot be opened.
    """
    true_folder = folder.resolve()
    try:
        place = (true_folder / name).resolve()
        if not place.is_relative_to(true_folder):
            raise UnsafeFileError(f"'{name}' leads out of its folder and is not read")
        # without waiting for the writer of a pipe, and without a last link that appeared meanwhile
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        handle = os.open(place, flags | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, UnsafeFileError):
            raise
        raise UnsafeFileError(f"'{name}' cannot be opened ({error})") from error
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        os.close(handle)
        raise UnsafeFileError(f"'{name}' is no plain file and is not read")
    if limit is not None and facts.st_size > limit:
        os.close(handle)
        raise UnsafeFileError(
            f"'{name}' has {format_size(facts.st_size)}, more than the {format_size(limit)} that "
            f"are read"
        )
    return os.fdopen(handle, "rb")


def read_text(folder: Path, name: str, limit: int) -> str:
    r"""Reads a text file; what is no UTF-8 becomes a sign of replacement."""
    with open_inside(folder, name, limit) as stream:
        return stream.read(limit + 1).decode("utf-8", errors="replace")


def read_json(folder: Path, name: str, limit: int) -> dict[str, object]:
    r"""Reads a JSON object.

    Raises:
        FileNotFoundError: It is not there.
        UnsafeFileError: It is not read, or holds no JSON object.
    """
    try:
        value = json.loads(read_text(folder, name, limit))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnsafeFileError):
            raise
        raise UnsafeFileError(f"'{name}' holds no readable JSON ({_short(error)})") from error
    if not isinstance(value, dict):
        raise UnsafeFileError(f"'{name}' holds no JSON object (got {type(value).__name__})")
    return value


def read_yaml(folder: Path, name: str, limit: int) -> dict[str, object]:
    r"""Reads a YAML mapping of plain data, without aliases, which could grow without end.

    Raises:
        FileNotFoundError: It is not there.
        UnsafeFileError: It is not read, or holds no plain mapping.
    """
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        value = yaml.load(read_text(folder, name, limit), Loader=PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, UnsafeFileError):
            raise
        raise UnsafeFileError(f"'{name}' holds no readable YAML ({_short(error)})") from error
    if not isinstance(value, dict):
        raise UnsafeFileError(f"'{name}' holds no YAML mapping (got {type(value).__name__})")
    return value


def format_size(size: float) -> str:
    r"""Bytes as a person says them."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:160]}…"
