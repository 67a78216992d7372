"""Pickles of arrays and plain containers, read without running anything they name."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path

from torch_grama.datasets.errors import DatasetError, UnsafePickleError
from torch_grama.datasets.pickle_stand_ins import (
    ArrayStandIn,
    ByteBudget,
    CooStandIn,
    CscStandIn,
    CsrStandIn,
    DtypeStandIn,
    ScalarStandIn,
    SparseMatrix,
    SparseStandIn,
)

__all__ = ["SparseMatrix", "load_pickle"]

# Objects that share their parts count the parts anew.
_LARGEST_UNFOLDING = 8


def load_pickle(path: Path) -> object:
    r"""Reads a pickle that holds arrays, sparse matrices, numbers, texts and plain containers.

    Nothing the file names is imported or called: every allowed name stands for code of this
    package that records what it is given and builds the object once all of it is checked. Files
    written by Python 2 and by old versions of numpy and scipy are understood, their byte strings
    as Latin-1.

    Args:
        path (Path): The file.

    Returns:
        The object; a scipy matrix (csr, csc or coo) arrives as a :class:`SparseMatrix`, so that
        scipy need not be installed.

    Raises:
        UnsafePickleError: The file asks for anything else, which is named.
        DatasetError: The file is not there, cut off, not a pickle, or unfolds to far more than it
            holds.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"Cannot read '{path}' ({error.strerror}): check the path and its permissions."
        ) from error
    try:
        _check_opcodes(content)
        budget = ByteBudget(_LARGEST_UNFOLDING * len(content))
        return _Resolver(budget).resolve(_Unpickler(content, budget).load())
    except UnsafePickleError as error:
        raise UnsafePickleError(
            f"'{path}' is refused because it asks for {error}, which data does not need: use the "
            f"file from its publisher, and open this one only if you trust whoever made it."
        ) from error
    except DatasetError as error:
        raise DatasetError(f"'{path}' cannot be read: {error}. Fetch it again.") from error
    except Exception as error:  # the unpickler raises nearly every type on garbage
        raise DatasetError(
            f"'{path}' is not a whole pickle ({type(error).__name__}: {error}): fetch it again."
        ) from error


class _Named:
    """A name from a pickle: callable, and closed to everything else a pickle can do to it."""

    __slots__ = ("call", "factory", "name")

    def __init__(
        self, name: str, call: Callable[..., object], factory: Callable[[], object] | None = None
    ) -> None:
        self.name = name
        self.call = call
        self.factory = factory

    def __call__(self, *arguments: object) -> object:
        return self.call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise UnsafePickleError(f"a change of '{self.name}'")


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, budget: ByteBudget) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self._budget = budget

    def find_class(self, module: str, name: str) -> object:
        module = _CURRENT_MODULES.get(module, module)
        qualified = f"{module}.{name}"
        if qualified in _MATRICES:
            return _MATRICES[qualified]
        if qualified in _FACTORIES:
            return _Named(qualified, self._convert(qualified), _FACTORIES[qualified])
        if qualified in _CALLS:
            return _Named(qualified, _CALLS[qualified])
        if qualified == "collections.OrderedDict":
            return _Named(qualified, self._ordered_dict)
        raise UnsafePickleError(f"'{module}.{name}'")

    def _convert(self, qualified: str) -> Callable[..., object]:
        """What calling ``set`` and its like does: only a copy of a list, and paid for."""

        def convert(*arguments: object) -> object:
            if not arguments:
                return _FACTORIES[qualified]()
            copies = qualified in ("builtins.set", "builtins.frozenset")
            if not copies or len(arguments) != 1 or not isinstance(arguments[0], list):
                raise UnsafePickleError(f"a call of '{qualified}'")
            self._budget.charge(len(arguments[0]))
            return set(arguments[0]) if qualified.endswith(".set") else frozenset(arguments[0])

        return convert

    def _ordered_dict(self, *arguments: object) -> object:
        if not arguments:
            return OrderedDict()
        if len(arguments) != 1 or not isinstance(arguments[0], list):
            raise UnsafePickleError("a call of 'collections.OrderedDict'")
        self._budget.charge(len(arguments[0]))
        return OrderedDict(arguments[0])


class _Resolver:
    """Copies the loaded containers, with every stand-in replaced by what it stands for."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._done: dict[int, object] = {}

    def resolve(self, item: object) -> object:
        if item is None or type(item) in (bool, int, float, complex, str, bytes, bytearray):
            return item
        if id(item) in self._done:
            return self._done[id(item)]
        if isinstance(item, list):
            items: list[object] = []
            self._done[id(item)] = items
            items.extend(self.resolve(part) for part in item)
            return items
        if isinstance(item, dict):
            return self._resolve_dict(item)
        result = self._resolve_fixed(item)
        self._done[id(item)] = result
        return result

    def _resolve_dict(self, item: dict[object, object]) -> object:
        table: dict[object, object] = {}
        if isinstance(item, defaultdict):
            table = defaultdict(item.default_factory)
        elif isinstance(item, OrderedDict):
            table = OrderedDict()
        self._done[id(item)] = table
        # An instance may hide the methods of its class behind attributes that came from the file.
        for key, value in dict.items(item):
            table[self.resolve(key)] = self.resolve(value)
        return table

    def _resolve_fixed(self, item: object) -> object:
        if isinstance(item, tuple):
            return tuple(self.resolve(part) for part in item)
        if isinstance(item, set):
            return {self.resolve(part) for part in item}
        if isinstance(item, frozenset):
            return frozenset(self.resolve(part) for part in item)
        if isinstance(item, DtypeStandIn):
            return item.value
        if isinstance(item, ArrayStandIn | ScalarStandIn | SparseStandIn):
            return item.build(self._budget)
        name = item.name if isinstance(item, _Named) else getattr(item, "__name__", str(item))
        raise UnsafePickleError(f"'{name}' itself")


def _check_opcodes(content: bytes) -> None:
    """Refuses what would harm before any name is looked up."""
    if not content:
        raise DatasetError("it is empty")
    for code, argument, position in pickletools.genops(content):
        if code.name in ("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER"):
            raise UnsafePickleError(f"an object outside the file ({code.name})")
        # The memo is a table as long as its largest index.
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and (argument or 0) > len(content):
            raise DatasetError(f"it numbers an object {argument}")
        if code.name == "STOP" and (position or 0) + 1 != len(content):
            raise DatasetError("there is something behind its end")


def _default_dict(factory: object = None, *arguments: object) -> object:
    if arguments or not isinstance(factory, _Named) or factory.factory is None:
        raise UnsafePickleError("a call of 'collections.defaultdict'")
    return defaultdict(factory.factory)


def _empty_array(kind: object, shape: object, code: object) -> ArrayStandIn:
    if not isinstance(kind, _Named) or kind.name != "numpy.ndarray":
        raise UnsafePickleError("an array of a class of its own")
    return ArrayStandIn()


def _array_from_buffer(raw: object, dtype: object, shape: object, order: object) -> ArrayStandIn:
    array = ArrayStandIn()
    array.__setstate__((shape, dtype, order == "F", raw))
    return array


def _new_object(kind: object, base: object, state: object) -> object:
    if kind not in _MATRICES.values() or state is not None:
        raise UnsafePickleError("a call of 'copyreg._reconstructor'")
    assert isinstance(kind, type)
    return kind()


def _encode(text: object, encoding: object) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnsafePickleError("a call of '_codecs.encode'")
    return text.encode("latin1")


def _refuse(name: str) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        raise UnsafePickleError(f"a call of '{name}'")

    return call


_CURRENT_MODULES = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
    "scipy.sparse.csr": "scipy.sparse",
    "scipy.sparse.csc": "scipy.sparse",
    "scipy.sparse.coo": "scipy.sparse",
    "scipy.sparse._csr": "scipy.sparse",
    "scipy.sparse._csc": "scipy.sparse",
    "scipy.sparse._coo": "scipy.sparse",
}
_MATRICES: dict[str, type[SparseStandIn]] = {
    "scipy.sparse.csr_matrix": CsrStandIn,
    "scipy.sparse.csc_matrix": CscStandIn,
    "scipy.sparse.coo_matrix": CooStandIn,
}
_FACTORIES: dict[str, Callable[[], object]] = {
    "builtins.list": list,
    "builtins.dict": dict,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.tuple": tuple,
    "builtins.int": int,
    "builtins.long": int,
    "builtins.float": float,
    "builtins.bytes": bytes,
}
_CALLS: dict[str, Callable[..., object]] = {
    "builtins.object": _refuse("builtins.object"),
    "collections.defaultdict": _default_dict,
    "copyreg._reconstructor": _new_object,
    "_codecs.encode": _encode,
    "numpy.dtype": DtypeStandIn,
    "numpy.ndarray": _refuse("numpy.ndarray"),
    "numpy._core.multiarray._reconstruct": _empty_array,
    "numpy._core.multiarray.scalar": ScalarStandIn,
    "numpy._core.numeric._frombuffer": _array_from_buffer,
}
