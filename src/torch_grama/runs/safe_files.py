"""Reads files that anyone may have written: inside one folder, up to a size, as data alone."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from torch_grama.runs.run_folder import CONFIG, LIMITS, RunError
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


class YamlFileError(ValueError):
    r"""A YAML file that cannot be used; the message names it and says why."""


def read_yaml(path: Path, *, aliases: bool = False) -> object:
    r"""Reads a YAML file; raises a :class:`YamlFileError`."""
    try:
        return load_yaml(read_plain(path, LIMITS[CONFIG]).decode(), aliases=aliases)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise YamlFileError(f"'{path}' cannot be read ({reason}): give a YAML file") from error
    except (ValueError, RecursionError) as error:
        mark = getattr(error.__cause__, "problem_mark", None)
        problem = str(getattr(error.__cause__, "problem", ""))
        if problem.startswith("could not determine a constructor"):
            raise YamlFileError(
                f"'{path}' asks for an object to be made ({problem}): a configuration holds data "
                f"only, write numbers, words and lists"
            ) from error
        line = f", line {mark.line + 1}" if mark is not None else ""
        reason = " ".join(str(error).split()) if isinstance(error, ValueError) else "too deep"
        why = "" if line else f" ({clip(reason, 100)})"
        raise YamlFileError(f"'{path}'{line} is no valid YAML{why}: correct it") from error


def to_yaml(content: Mapping[str, object]) -> str:
    r"""Returns plain data as the text of a YAML file."""
    import yaml

    return str(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True))


def load_yaml(text: str, *, aliases: bool = False) -> Any:
    r"""Reads YAML as plain data, without aliases unless its writer is trusted: they could grow
    without end. Raises :class:`ValueError`, or :class:`RecursionError` where it is nested beyond
    all use.
    """
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if not aliases and self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read, write the values out")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader=PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
