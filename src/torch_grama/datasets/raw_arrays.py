"""Arrays out of raw files; a damaged file gives one sentence that names it."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.compact import Array
from torch_grama.datasets.errors import DatasetError

DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(RuntimeError, ArithmeticError, MemoryError, SyntaxError, struct.error),
    *(zipfile.BadZipFile, zlib.error, tarfile.TarError, lzma.LZMAError, pickle.UnpicklingError),
)
"""What readers of archives, arrays and tables raise on a damaged file."""


@contextmanager
def reading(path: Path | str, expected: str) -> Iterator[None]:
    r"""Turns whatever goes wrong inside into one sentence about the file.

    Args:
        path (Path): The file being read.
        expected (str): What it should be, in words.

    Raises:
        DatasetError: If anything inside fails.
    """
    try:
        yield
    except DatasetError as error:
        if type(error) is not DatasetError or str(path) in str(error):
            raise
        raise DatasetError(f"'{path}' does not fit together: {error}") from error
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(
            f"Expected '{path}' to be {expected} (got: {reason[:200]}); remove it and fetch it "
            "again"
        ) from error


def read_npz(path: Path, names: Sequence[str]) -> dict[str, Array]:
    r"""Reads the named arrays of an ``.npz`` file.

    Args:
        path (Path): The file.
        names (sequence of str): The arrays that must be there.

    Raises:
        DatasetError: If the file is damaged or an array is missing.
    """
    with (
        reading(path, f"an .npz file with the arrays {', '.join(names)}"),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        return {name: archive[name] for name in names}


def read_table(content: bytes, num_columns: int, where: str) -> NDArray[np.int64]:
    r"""Reads a table of whole numbers without a header from a gzipped CSV file.

    Args:
        content (bytes): The compressed file.
        num_columns (int): Expected number of columns.
        where (str): Its name, for the message.

    Raises:
        DatasetError: If it is damaged or has another width.
    """
    with reading(where, f"a gzipped table of {num_columns} columns of whole numbers"):
        text = gzip.decompress(content)
        if not text.strip():
            return np.empty((0, num_columns), dtype=np.int64)
        table = np.loadtxt(io.BytesIO(text), dtype=np.int64, delimiter=",", ndmin=2)
        if table.shape[1] != num_columns:
            raise ValueError(f"{table.shape[1]} columns")
        return table


def read_json(path: Path, keys: Sequence[str]) -> dict[str, object]:
    r"""Reads a JSON object that has the given keys.

    Raises:
        DatasetError: If the file is damaged or a key is missing.
    """
    with reading(path, f"a JSON object with the keys {', '.join(keys)}"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__}")
        missing = [key for key in keys if key not in content]
        if missing:
            raise KeyError(f"no key {missing[0]}")
        return content


def read_tensors(stream: IO[bytes] | Path, where: str) -> object:
    r"""Reads tensors saved with :func:`torch.save`; nothing in the file is run.

    Raises:
        DatasetError: If the file is damaged or holds more than tensors and plain containers.
    """
    with reading(where, "a file of tensors and plain containers"):
        source = stream if isinstance(stream, Path) else io.BytesIO(stream.read())
        return torch.load(source, map_location="cpu", weights_only=True)
