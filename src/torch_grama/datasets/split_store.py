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
from torch_grama.datasets.splits import Fractions, Split

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
    data_fingerprint: str,
    num_items: int,
    make: Callable[[], Split],
    *,
    fractions: Fractions,
    seed: int,
    stratified: bool,
) -> tuple[Split, str | None]:
    r"""Returns the division that is stored for a seed, or makes and stores it.

    Args:
        path (Path): The file of divisions, such as ``splits.json`` beside the data.
        data_fingerprint (str): Which data they belong to, see :func:`fingerprint`.
        num_items (int): Number of nodes or graphs.
        make (callable): Makes the division where none is stored.
        fractions (tuple): What :obj:`make` is told; part of the key.
        seed (int): Likewise.
        stratified (bool): Likewise.

    Returns:
        The division, and where it could not be stored the reason, in words.

    Raises:
        DatasetError: The file is broken or belongs to other data.
    """
    parts = "/".join(str(fraction) for fraction in fractions)
    key = f"seed {seed}, {parts}, {'stratified' if stratified else 'not stratified'}"
    divisions = _read(path, data_fingerprint)
    if key in divisions:
        return _checked(path, key, divisions[key], num_items), None
    split = make()
    stored = {part: getattr(split, part).tolist() for part in _PARTS}
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock(path.with_name(f".{path.name}.lock")))
            # Another process may have added a division of its own in the meantime.
            divisions = {**_read(path, data_fingerprint), key: stored}
            table = {"format": _FORMAT, "fingerprint": data_fingerprint, "divisions": divisions}
            write_atomically(path, (json.dumps(table, separators=(",", ":")) + "\n").encode())
        except OSError as error:
            return split, f"it could not be stored in '{path}' ({error.strerror or error})"
    return split, None


def _read(path: Path, data_fingerprint: str) -> dict[str, object]:
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
    if table.get("fingerprint") != data_fingerprint:
        raise DatasetError(
            f"'{path}' holds splits of other data (nodes, edges or labels have changed since they "
            f"were made): restore the data, or delete the file to have new splits made."
        )
    divisions = table.get("divisions")
    if not isinstance(divisions, dict):
        raise _broken(path, "'divisions' is missing")
    return divisions


def _checked(path: Path, key: str, stored: object, num_items: int) -> Split:
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


def _broken(path: Path, fault: str) -> DatasetError:
    return DatasetError(
        f"'{path}' is no file of splits ({fault}): delete it to have new splits made."
    )
