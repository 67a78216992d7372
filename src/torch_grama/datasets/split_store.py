"""Divisions that were made, kept beside the data they belong to."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.atomic_file import write_atomically
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.file_lock import file_lock
from torch_grama.datasets.splits import Split

_FORMAT = 1
_PARTS = ("train", "val", "test")


def fingerprint(parts: Iterable[NDArray[np.generic] | str]) -> str:
    r"""Returns a short name for data: equal data has the same, other data another.

    Args:
        parts (iterable): Arrays and texts, in a fixed order.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            content, kind = part.encode(), "text"
        else:
            array = np.ascontiguousarray(part)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            content, kind = array.tobytes(), f"{array.dtype.str}{array.shape}"
        digest.update(f"{kind}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def stored_split(
    path: Path,
    key: str,
    make: Callable[[], Split],
    *,
    num_items: int,
    items: str,
    targets: str,
) -> tuple[Split, str | None]:
    r"""Returns the division that is stored under a key, or makes and stores it.

    Args:
        path (Path): The file of divisions, such as ``splits.json`` beside the data.
        key (str): How the division is made: seed, fractions and whatever else it depends on.
        make (callable): Makes the division where none is stored.
        num_items (int): Number of nodes or graphs.
        items (str): :func:`fingerprint` of the nodes or graphs; one for the whole file.
        targets (str): :func:`fingerprint` of what the division takes from the targets.

    Returns:
        The division, and where it could not be stored the reason, in words.

    Raises:
        DatasetError: The file is broken or belongs to other data.
    """
    divisions = _read(path, items)
    if key in divisions:
        return _checked(path, key, divisions[key], num_items, targets), None
    split = make()
    stored = {"targets": targets, **{part: getattr(split, part).tolist() for part in _PARTS}}
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock(path.with_name(f".{path.name}.lock")))
            # Another process may have added a division of its own in the meantime.
            divisions = {**_read(path, items), key: stored}
            table = {"format": _FORMAT, "items": items, "divisions": divisions}
            write_atomically(path, (json.dumps(table, separators=(",", ":")) + "\n").encode())
        except OSError as error:
            return split, f"it could not be stored in '{path}' ({error.strerror or error})"
    return split, None


def _read(path: Path, items: str) -> dict[str, object]:
    try:
        table = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DatasetError(
            f"Cannot read '{path}' ({error.strerror}): check its permissions."
        ) from error
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error)) from error
    if not isinstance(table, dict) or table.get("format") != _FORMAT:
        raise _broken(path, f"expected a table of format {_FORMAT}")
    if table.get("items") != items:
        raise _foreign(path, "the nodes or graphs")
    divisions = table.get("divisions")
    if not isinstance(divisions, dict):
        raise _broken(path, "'divisions' is missing")
    return divisions


def _checked(path: Path, key: str, stored: object, num_items: int, targets: str) -> Split:
    if isinstance(stored, dict) and stored.get("targets") != targets:
        raise _foreign(path, "the labels")
    parts = []
    for name in _PARTS:
        indices = stored.get(name) if isinstance(stored, dict) else None
        if (
            not isinstance(indices, list)
            or not indices
            or not all(type(index) is int and 0 <= index < num_items for index in indices)
        ):
            raise _broken(path, f"'{name}' of the split '{key}' is no list of valid indices")
        parts.append(np.asarray(indices, dtype=np.int64))
    joined = np.concatenate(parts)
    if len(np.unique(joined)) != len(joined):
        raise _broken(path, f"the sets of the split '{key}' overlap")
    return Split(*parts)


def _foreign(path: Path, what: str) -> DatasetError:
    return DatasetError(
        f"'{path}' holds splits of other data ({what} have changed since they were made): restore "
        f"the data, or delete the file to have new splits made."
    )


def _broken(path: Path, fault: str) -> DatasetError:
    return DatasetError(
        f"'{path}' is no file of splits ({fault}): delete it to have new splits made."
    )
