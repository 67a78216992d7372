"""Reads files that anyone may have written: inside one folder, up to a size, as data alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import IO, Any

from torch_grama.runs.run_folder import LIMITS, RunError
from torch_grama.runs.words import clip, format_bytes


def open_inside(folder: Path, name: str, limit: int | None) -> IO[bytes]:
    r"""Opens a regular file whose true place is inside a folder.

    Args:
        folder (Path): The folder.
        name (str): The file, relative to it.
        limit (int, optional): The largest size in bytes; :obj:`None` for any.

    Raises:
        FileNotFoundError: It is not there.
        RunError: It lies elsewhere, is no plain file, is too large or cannot be opened.
    """
    folder = folder.resolve()
    # without waiting for the writer of a pipe, and without a last link that appeared meanwhile
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        place = (folder / name).resolve()
        inside = place.is_relative_to(folder)
        handle = os.open(place, flags | getattr(os, "O_BINARY", 0)) if inside else -1
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise RunError(f"'{name}' cannot be opened ({error})") from error
    if not inside:
        raise RunError(f"'{name}' leads out of its folder and is not read")
    facts = os.fstat(handle)
    fault = ""
    if not stat.S_ISREG(facts.st_mode):
        fault = "is no plain file and is not read"
    elif limit is not None and facts.st_size > limit:
        size, most = format_bytes(facts.st_size), format_bytes(limit)
        fault = f"has {size}, more than the {most} that are read"
    if fault:
        os.close(handle)
        raise RunError(f"'{name}' {fault}")
    return os.fdopen(handle, "rb")


def read_mapping(folder: Path, name: str) -> dict[str, object]:
    r"""Reads a JSON object or, from a ``.yaml`` file, a mapping of plain data; what is no UTF-8
    becomes a sign of replacement.

    Args:
        folder (Path): The folder.
        name (str): One of :obj:`LIMITS`.

    Raises:
        FileNotFoundError: It is not there.
        RunError: It is not read, or holds something else.
    """
    with open_inside(folder, name, LIMITS[name]) as stream:
        text = stream.read(LIMITS[name] + 1).decode("utf-8", errors="replace")
    load, kind, whole = (
        (_load_yaml, "YAML", "mapping")
        if name.endswith(".yaml")
        else (json.loads, "JSON", "object")
    )
    try:
        value = load(text)
    except (ValueError, RecursionError) as error:
        reason = clip(" ".join(str(error).split()) or type(error).__name__, 161)
        raise RunError(f"'{name}' holds no readable {kind} ({reason})") from error
    if not isinstance(value, dict):
        raise RunError(f"'{name}' holds no {kind} {whole} (got {type(value).__name__})")
    return value


def _load_yaml(text: str) -> Any:
    """Plain data without aliases, which could grow without end."""
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader=PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
