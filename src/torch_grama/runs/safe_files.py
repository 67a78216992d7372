"""Reads files that anyone may have written: inside one folder, up to a size, as data alone; and
keeps the hash of the data that a folder was started with.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import CONFIG, LIMITS, SEAL, RunError
from torch_grama.runs.words import clip, format_bytes

Row = list[float | None]
Matrix = list[Row]
Cube = list[Matrix]
FIRST_EPOCH = "first_epoch"
"""Marks files whose epochs count from 1."""
# More entries than any figure or table shows.
_MAX = 4096


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


def read_object(path: Path) -> dict[str, Any] | None:
    r"""Reads a small JSON object; nothing where there is none, or it is damaged."""
    try:
        content = json.loads(read_plain(path, 1_000_000))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


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


class Record:
    r"""Reads a JSON object whose contents may have any form; anything else counts as an empty one.
    Numbers are rounded to four digits within lists, which is more than a figure shows.
    """

    def __init__(self, value: object = None) -> None:
        self._content = value if isinstance(value, dict) else {}

    def __bool__(self) -> bool:
        return bool(self._content)

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def number(self, name: str) -> float | None:
        return as_number(self._content.get(name))

    def word(self, name: str, default: str = "", length: int = 300) -> str:
        r"""A text of bounded length."""
        value = self._content.get(name)
        return clip(value if isinstance(value, str) else default, length)

    def is_true(self, name: str) -> bool:
        return self._content.get(name) is True

    def part(self, name: str) -> Record:
        return Record(self._content.get(name))

    def parts(self, name: str) -> list[Record]:
        return [Record(item) for item in self.items(name) if isinstance(item, dict)]

    def items(self, name: str) -> list[object]:
        return _items(self._content.get(name))

    def row(self, name: str) -> Row:
        r"""A list of numbers, :obj:`None` for what is none; empty if there is no list."""
        return _row(self._content.get(name))

    def matrix(self, name: str) -> Matrix:
        r"""A list of equally long lists of numbers; empty if there is none."""
        return _matrix(self._content.get(name))

    def cube(self, name: str) -> Cube:
        r"""A list of matrices of one shape; empty if there is none."""
        matrices = [_matrix(item) for item in self.items(name)]
        shapes = {(len(matrix), len(matrix[0])) for matrix in matrices if matrix}
        return matrices if all(matrices) and len(shapes) == 1 else []


def count_from_one(content: dict[str, Any], name: str) -> dict[str, Any]:
    r"""Returns what a file says with an epoch that counts from 1; in versions before 0.2 the first
    epoch was 0, and files had no mark.
    """
    epoch = as_number(content.get(name))
    if epoch is None or content.get(FIRST_EPOCH) == 1:
        return content
    return content | {name: int(epoch) + 1, FIRST_EPOCH: 1}


def as_number(value: object) -> float | None:
    r"""A finite number, or :obj:`None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def round_off(value: float | None) -> float | None:
    r"""Four digits: more than a figure shows."""
    return None if value is None else float(f"{value:.4g}")


def _items(value: object) -> list[object]:
    return value[:_MAX] if isinstance(value, list) else []


def _row(value: object) -> Row:
    return [round_off(as_number(item)) for item in _items(value)]


def _matrix(value: object) -> Matrix:
    rows = [_row(item) for item in _items(value)]
    return rows if len({len(row) for row in rows}) == 1 else []


def seal_data(folder: Path, values: str) -> None:
    r"""Keeps a hash of data in a folder that has none, and refuses another than it has; an empty
    one is that of any data.
    """
    try:
        before = read_plain(folder / SEAL, 1000).decode(errors="replace")
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SEAL, values.encode())
    except OSError as error:
        raise RunError(f"'{folder / SEAL}' cannot be read ({error.strerror})") from error
    else:
        check_same_data(before, values, folder)


def check_same_data(before: str, now: str, folder: object) -> None:
    r"""Refuses data whose hash is not that of the data before; an empty one is not compared."""
    if before and now and before != now:
        raise RunError(
            f"The data is not what '{folder}' was started with: restore it, or start anew in "
            f"another folder"
        )
