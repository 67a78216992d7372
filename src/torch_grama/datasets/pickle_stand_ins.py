"""What a pickle's names stand for: inert records of arrays, turned into arrays once checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError

_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16|[SU][1-9][0-9]{0,5})")
# A matrix wider than this is no data set; turned dense it would fill any memory.
_MOST_COLUMNS = 1 << 24

Array = NDArray[np.generic]


@dataclass(frozen=True)
class SparseMatrix:
    r"""The stored entries of a sparse matrix.

    Attributes:
        row: Row of each entry, int64.
        column: Column of each entry, int64.
        value: The entries.
        shape: Rows and columns.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Array
    shape: tuple[int, int]

    def toarray(self) -> Array:
        r"""Returns the dense matrix; entries stored twice are summed, as scipy does."""
        dense = np.zeros(self.shape, dtype=self.value.dtype)
        np.add.at(dense, (self.row, self.column), self.value)
        return dense


class ByteBudget:
    r"""How much a file may unfold to: what a reader builds is spelled out in the file itself."""

    def __init__(self, amount: int) -> None:
        self.left = amount

    def charge(self, amount: int) -> None:
        """Takes an amount away; refuses when the file unfolds to more than it spells out."""
        self.left -= amount
        if self.left < 0:
            raise DatasetError("it unfolds to far more than it holds")


class DtypeStandIn:
    r"""A plain number or text type; records, objects and dates are refused."""

    def __init__(self, code: object, align: object = False, copy: object = False) -> None:
        if not isinstance(code, str) or not _DTYPE.fullmatch(code):
            raise DatasetError(f"it holds an array of the type {code!r}")
        self.value: np.dtype[np.generic] = np.dtype(code)

    def __setstate__(self, state: object) -> None:
        fields = state if isinstance(state, tuple) and len(state) >= 5 else (None, None)
        order = fields[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in fields[2:5]):
            raise DatasetError("it holds an array of records")
        assert isinstance(order, str)
        if order != "|":
            self.value = self.value.newbyteorder(order)  # type: ignore[arg-type]


class ArrayStandIn:
    r"""An array whose shape, type and bytes arrive later."""

    def __init__(self) -> None:
        self.state: tuple[object, object, object, object] | None = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise DatasetError("it holds an array of unknown make")
        self.state = (state[-4], state[-3], state[-2], state[-1])

    def build(self, budget: ByteBudget) -> Array:
        """Returns the array."""
        if self.state is None:
            raise DatasetError("it holds an array without content")
        shape, dtype, fortran, raw = self.state
        return _build_array(shape, dtype, bool(fortran), raw, budget)


class ScalarStandIn:
    r"""One numpy number."""

    def __init__(self, dtype: object, raw: object) -> None:
        self.dtype = dtype
        self.raw = raw

    def build(self, budget: ByteBudget) -> np.generic:
        """Returns the number."""
        array = _build_array((1,), self.dtype, False, self.raw, budget)
        return array.dtype.type(array[0])


class SparseStandIn:
    r"""A scipy matrix; the subclasses name its format."""

    compressed_axis: ClassVar[int | None] = None

    def __init__(self) -> None:
        self.state: dict[object, object] = {}

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict):
            raise DatasetError("it holds a sparse matrix of unknown make")
        coordinates = state.get("coords")  # how newer versions of scipy keep rows and columns
        if isinstance(coordinates, tuple) and len(coordinates) == 2:
            state = {**state, "row": coordinates[0], "col": coordinates[1]}
        self.state = state

    def build(self, budget: ByteBudget) -> SparseMatrix:
        """Returns the matrix, its indices checked."""
        shape = self.state.get("_shape", self.state.get("shape"))
        if (
            not isinstance(shape, tuple)
            or len(shape) != 2
            or not all(type(size) is int and 0 <= size <= _MOST_COLUMNS for size in shape)
        ):
            raise DatasetError(f"it holds a sparse matrix of the shape {shape!r}")
        value = self._part("data", budget)
        if self.compressed_axis is None:
            entries = [self._index("row", shape[0], budget), self._index("col", shape[1], budget)]
        else:
            major, minor = shape[self.compressed_axis], shape[1 - self.compressed_axis]
            expanded = np.repeat(np.arange(major), self._row_lengths(major, len(value), budget))
            entries = [expanded, self._index("indices", minor, budget)]
            if self.compressed_axis == 1:
                entries.reverse()
        if not len(entries[0]) == len(entries[1]) == len(value):
            raise DatasetError("it holds a sparse matrix whose parts differ in length")
        return SparseMatrix(entries[0], entries[1], value, (shape[0], shape[1]))

    def _row_lengths(self, major: int, entries: int, budget: ByteBudget) -> NDArray[np.int64]:
        part = self._part("indptr", budget)
        if part.dtype.kind in "iu" and len(part) == major + 1:
            pointer = part.astype(np.int64)
            lengths = pointer[1:] - pointer[:-1]
            if pointer[0] == 0 and pointer[-1] == entries and bool((lengths >= 0).all()):
                return lengths
        raise DatasetError("it holds a sparse matrix with broken row pointers")

    def _part(self, name: str, budget: ByteBudget) -> Array:
        part = self.state.get(name)
        if not isinstance(part, ArrayStandIn):
            raise DatasetError(f"it holds a sparse matrix without '{name}'")
        array = part.build(budget)
        if array.ndim != 1:
            raise DatasetError(f"it holds a sparse matrix whose '{name}' is no vector")
        return array

    def _index(self, name: str, size: int, budget: ByteBudget) -> NDArray[np.int64]:
        index = self._part(name, budget)
        if index.dtype.kind not in "iu" or (
            len(index) and (int(index.min()) < 0 or int(index.max()) >= size)
        ):
            raise DatasetError(f"it holds a sparse matrix whose '{name}' leaves its shape")
        return index.astype(np.int64)


class CsrStandIn(SparseStandIn):
    r"""A matrix in compressed rows."""

    compressed_axis = 0


class CscStandIn(SparseStandIn):
    r"""A matrix in compressed columns."""

    compressed_axis = 1


class CooStandIn(SparseStandIn):
    r"""A matrix as a list of entries."""


def _build_array(
    shape: object, dtype: object, fortran: bool, raw: object, budget: ByteBudget
) -> Array:
    if not isinstance(dtype, DtypeStandIn):
        raise DatasetError("it holds an array of an unknown type")
    if isinstance(raw, str):  # the bytes of Python 2
        raw = raw.encode("latin1")
    if not isinstance(raw, bytes | bytearray):
        raise DatasetError("it holds an array of objects")
    if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
        raise DatasetError(f"it holds an array of the shape {shape!r}")
    expected = dtype.value.itemsize
    for size in shape:
        expected *= size
    if expected != len(raw):
        raise DatasetError(f"it holds an array of {shape} with {len(raw)} bytes, not {expected}")
    budget.charge(len(raw))
    flat: Array = np.frombuffer(raw, dtype=dtype.value)
    flat = flat.astype(flat.dtype.newbyteorder("="))
    if flat.dtype.kind == "b":  # any other byte than 0 and 1 would be neither true nor false
        flat = flat.view(np.uint8) != 0
    return flat.reshape(shape, order="F" if fortran else "C")
