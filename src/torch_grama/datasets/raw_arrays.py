"""Arrays out of raw files; a damaged file gives one sentence that names it."""

from __future__ import annotations

import hashlib
import io
import lzma
import pickle
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError, UnsafePickleError, shown
from torch_grama.runs.memory import free_memory
from torch_grama.runs.words import format_bytes

_SLACK = 2**28
"""Bytes that a file may stand for beyond those it has: what compression saves on small data."""
Array: TypeAlias = NDArray[np.generic]
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(RuntimeError, ArithmeticError, MemoryError, SyntaxError, SystemError, struct.error),
    *(zipfile.BadZipFile, zlib.error, tarfile.TarError, lzma.LZMAError, pickle.UnpicklingError),
)
"""What readers of archives, arrays and tables raise on a damaged file."""


@contextmanager
def reading(path: Path | str, expected: str) -> Iterator[None]:
    r"""Turns whatever goes wrong inside into one sentence about the file."""
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


@contextmanager
def whole_file(path: Path, what: str, remedy: str) -> Iterator[None]:
    r"""Says that a user's file is not what its ending says; libraries raise nearly every type on
    garbage.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else "no reason given"
        raise DatasetError(
            f"'{path}' is not a whole {what} ({type(error).__name__}: {shown(reason, 200)[1:-1]}): "
            f"{remedy}."
        ) from error


def check_size(path: Path, held: int = 0) -> None:
    r"""Refuses a file, or a folder of files, that takes more memory than there is or than it has
    any reason to: a few bytes can say that they stand for many, :obj:`held` if so.
    """
    try:
        files = list(path.iterdir()) if path.is_dir() else [path]
        facts = [file.stat() for file in files]
    except OSError as error:
        raise unreadable(path, error) from error
    if not path.is_dir() and not stat.S_ISREG(facts[0].st_mode):
        raise DatasetError(f"'{path}' is no plain file: copy what it holds into one.")
    stored = sum(fact.st_size for fact in facts)
    if held > stored + _SLACK:
        raise DatasetError(
            f"'{path}' has {format_bytes(stored)} and stands for {format_bytes(held)}, which is no "
            f"data but a repetition: store every number, without compression."
        )
    free = free_memory()
    if free is not None and max(stored, held) > free:
        raise DatasetError(
            f"'{path}' takes at least {format_bytes(max(stored, held))} of memory and "
            f"{format_bytes(free)} are free: take a larger machine, or a part of the data."
        )


def unreadable(path: Path, error: OSError) -> DatasetError:
    return DatasetError(
        f"Cannot read '{path}' ({error.strerror}): check the path and its permissions."
    )


def read_npz(path: Path, names: Sequence[str]) -> dict[str, Array]:
    with (
        reading(path, f"an .npz file with the arrays {', '.join(names)}"),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        return {name: archive[name] for name in names}


def load_pickle(source: Path | bytes, where: str | None = None) -> object:
    r"""Reads a pickle of arrays, tensors, numbers, texts and plain containers.

    Only the few names that such data needs are looked up. Files of Python 2 and of old versions of
    numpy and scipy are understood, their byte strings as Latin-1; scipy need not be installed.
    """
    where = where or str(source)
    with reading(where, "a pickle of arrays and plain containers"):
        content = source.read_bytes() if isinstance(source, Path) else source
        return _DataUnpickler(content, where).load()


class CsrMatrix:
    r"""A scipy matrix in compressed rows, as it stands in a pickle."""

    def toarray(self) -> Array:
        r"""Returns the dense matrix; entries stored twice are summed, as scipy does."""
        parts = vars(self)
        data, columns = np.asarray(parts["data"]), np.asarray(parts["indices"], dtype=np.int64)
        dense = np.zeros(parts["_shape" if "_shape" in parts else "shape"], dtype=data.dtype)
        rows = np.repeat(np.arange(dense.shape[0]), np.diff(parts["indptr"]))
        if not rows.shape == columns.shape == data.shape or bool((columns < 0).any()):
            raise ValueError("a sparse matrix whose parts do not fit together")
        np.add.at(dense, (rows, columns), data)
        return dense


class _DataUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self._where = where

    def find_class(self, module: str, name: str) -> object:
        module = _PYTHON_3.get(module, module).replace("numpy.core.", "numpy._core.")
        if module.startswith("scipy.sparse") and name == "csr_matrix":
            return CsrMatrix
        if (module, name) == ("builtins", "long"):
            return int
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage
        if name not in _PICKLED_NAMES.get(module, ()):
            raise UnsafePickleError(
                f"'{self._where}' is refused because it asks for '{module}.{name}', which data "
                f"does not need: use the file from its publisher."
            )
        return super().find_class(module, name)


def _load_storage(content: bytes) -> object:
    """The storage inside a tensor is itself a file of torch."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


_PYTHON_3 = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_PICKLED_NAMES = {
    "builtins": {"object", "list", "dict", "set", "frozenset", "int", "float", "bytes"},
    "collections": {"OrderedDict", "defaultdict"},
    "copyreg": {"_reconstructor"},
    "_codecs": {"encode"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "torch._utils": {"_rebuild_tensor_v2"},
}


def read_tensors(source: Path | bytes, where: str | None = None) -> object:
    r"""Reads tensors saved with :func:`torch.save`; nothing in the file is run."""
    with reading(where or str(source), "a file of tensors and plain containers"):
        file = source if isinstance(source, Path) else io.BytesIO(source)
        return torch.load(file, map_location="cpu", weights_only=True)


def fingerprint(parts: Iterable[Array | str]) -> str:
    r"""Returns a short name for data: equal data has the same, other data another."""
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
