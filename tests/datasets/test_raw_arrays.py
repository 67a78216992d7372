import contextlib
import os
import pickle
import random
import struct
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from torch_grama.datasets import DatasetError, UnsafePickleError
from torch_grama.datasets.raw_arrays import CsrMatrix, load_pickle

every_protocol = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


def load_bytes(folder: Path, content: bytes) -> object:
    path = folder / "data.pickle"
    path.write_bytes(content)
    return load_pickle(path)


class Reduced:
    """Pickles as a call of anything with anything."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def same(left: object, right: object) -> bool:
    if isinstance(right, np.ndarray | np.generic):
        return (
            type(left) is type(right)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(right, dict):
        return (
            type(left) is type(right)
            and list(left) == list(right)
            and all(same(left[key], right[key]) for key in right)
        )
    if isinstance(right, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


PLAIN = {
    "none": None,
    "numbers": (1, -2.5, 10**40, True),
    "texts": ["a", "ü", "", b"bytes", b""],
    "sets": [{1, 2}, frozenset({3}), set()],
    "deep": {1: {2: [3, (4, [5])]}},
    "factory": defaultdict(list, {0: [1, 2]}),
    "counts": defaultdict(int, {"a": 2}),
    "ordered": OrderedDict([("z", 1), ("a", 2)]),
    "scalars": [np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("ab")],
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "empty": np.zeros((0, 4), dtype=np.float16),
    "zero-dimensional": np.array(3.0),
    "flags": np.array([True, False]),
    "words": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "dtype": np.dtype("f4"),
}


@every_protocol
def test_plain_data_comes_back(tmp_path: Path, protocol: int) -> None:
    content = pickle.dumps(PLAIN, protocol)
    expected = pickle.loads(content)
    loaded = load_bytes(tmp_path, content)
    assert isinstance(loaded, dict)
    for key in expected:
        assert same(loaded[key], expected[key]), key
    assert loaded["factory"].default_factory is list
    assert loaded["empty"].flags.writeable


@every_protocol
def test_sparse_matrices_come_back(tmp_path: Path, protocol: int) -> None:
    dense = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3], [0, 4, 0]], dtype=np.float32)
    loaded = load_bytes(tmp_path, pickle.dumps(scipy.sparse.csr_matrix(dense), protocol))
    assert isinstance(loaded, CsrMatrix)
    assert same(loaded.toarray(), dense)


def test_old_names_and_the_text_of_python_2(tmp_path: Path) -> None:
    """As Python 2 wrote it: protocol 2, byte strings, names that have moved since."""
    raw = struct.pack("<2i", 7, 250)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x02\x85"
        b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK"
        b"\x00tb\x89U\x08" + raw + b"tb"
    )
    loaded = load_bytes(tmp_path, b"\x80\x02" + array + b".")
    assert same(loaded, np.array([7, 250], dtype="<i4"))
    reconstructed = (
        b"ccopy_reg\n_reconstructor\n(cscipy.sparse.csr\ncsr_matrix\nc__builtin__\nobject\nNtR"
        b"}(U\x06_shapeK\x01K\x03\x86U\x04data"
        + array
        + b"U\x06indptr"
        + array.replace(raw, struct.pack("<2i", 0, 2))
        + b"U\x07indices"
        + array.replace(raw, struct.pack("<2i", 0, 2))
        + b"ub."
    )
    matrix = load_bytes(tmp_path, b"\x80\x02" + reconstructed)
    assert isinstance(matrix, CsrMatrix)
    assert matrix.toarray().tolist() == [[7, 0, 250]]


def test_ordered_pairs_as_python_2_wrote_them(tmp_path: Path) -> None:
    content = b"ccollections\nOrderedDict\n((l(lS'z'\naI1\naa(lS'a'\naI2\naatR."
    assert same(load_bytes(tmp_path, content), OrderedDict([("z", 1), ("a", 2)]))


def reference_modules() -> list[tuple[object, ...]]:
    import builtins
    import functools
    import operator
    import subprocess

    return [
        (os.system, ("touch pwned",)),
        (builtins.eval, ("open('pwned', 'w')",)),
        (builtins.exec, ("open('pwned', 'w')",)),
        (builtins.getattr, ("text", "upper")),
        (builtins.__import__, ("os",)),
        (builtins.open, ("pwned", "w")),
        (subprocess.check_output, (["touch", "pwned"],)),
        (functools.partial, (print, 1)),
        (operator.attrgetter, ("__class__",)),
        (np.load, ("x.npy",)),
        (np.fromfile, ("/etc/hosts",)),
        (np.memmap, ("pwned",)),
        (bytearray, (10**12,)),
        (range, (10**12,)),
        (type, ("X", (), {})),
        (map, (print, [1])),
        (str, ([1],)),
        (random.Random, ()),
    ]


@pytest.mark.parametrize("call", reference_modules(), ids=lambda call: call[0].__name__)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_calls_are_refused_and_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[object, ...],
    nested: bool,
    protocol: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile: object = Reduced(*call)
    if nested:
        hostile = {"x": [np.arange(3), Reduced(dict, ([(1, (2, hostile))],))]}
    with pytest.raises(UnsafePickleError) as caught:
        load_bytes(tmp_path, pickle.dumps(hostile, protocol, fix_imports=False))
    assert "data.pickle' is refused because it asks for" in str(caught.value)
    if not nested:
        name = call[0].__name__  # type: ignore[attr-defined]
        assert f"{name}'" in str(caught.value)
    assert os.listdir(tmp_path) == ["data.pickle"]


GADGETS = {
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0bos.system.x\x93\x8c\x02id\x85R.",
    "submodule of an allowed one": b"\x80\x04\x8c\x05numpy\x8c\x08ndarray.\x93.",
    "builtins through collections": b"ccollections\nabc\n.",
    "old instance": b"(cos\nsystem\nS'id'\no.",
    "old inst opcode": b"(S'id'\nios\nsystem\n.",
}


@pytest.mark.parametrize("content", GADGETS.values(), ids=GADGETS)
def test_gadgets_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        load_bytes(tmp_path, content)


GARBAGE = {
    "extension registry": b"\x80\x02\x82\x01.",
    "persistent id": b"Pid\n.",
    "buffer outside": b"\x80\x05\x97.",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.",
    "huge frame": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "no end": b"N",
    "empty": b"",
    "page": b"<!doctype html><html></html>",
    "stack underflow": b"\x80\x02t.",
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"data\.pickle'"):
        load_bytes(tmp_path, content)


@pytest.mark.parametrize(
    "changed",
    [
        {"_shape": (2, 10**15)},
        {"data": np.array([1.0])},
        {"data": None},
        {"indptr": np.array([0, 3, 2])},
        {"indices": np.array([0, 3])},
        {"indices": np.array([-1, 2])},
    ],
)
def test_sparse_matrices_are_checked(tmp_path: Path, changed: dict[str, object]) -> None:
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 0, 0], [0, 0, 2]]))
    matrix.__dict__.update(changed)
    loaded = load_bytes(tmp_path, pickle.dumps(matrix, 2))
    with pytest.raises((ValueError, AttributeError, IndexError, MemoryError)):
        loaded.toarray()  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_give_nothing_but_dataset_errors(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32))
    table = {"a": np.arange(5), "m": matrix, "l": [1, "x", 2.5], "d": defaultdict(list)}
    generator = random.Random(0)
    for protocol in (0, 2, 4, 5):
        whole = pickle.dumps(table, protocol)
        damaged = [whole[:cut] for cut in range(0, len(whole), 3)]
        for _ in range(100 if protocol > 2 else 0):
            flipped = bytearray(whole)
            for _ in range(generator.randint(1, 3)):
                flipped[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
            damaged.append(bytes(flipped))
        for content in damaged:
            with contextlib.suppress(DatasetError):  # anything else fails the test
                load_bytes(tmp_path, content)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="No such file"):
        load_pickle(tmp_path / "no.pickle")


def real_files() -> list[Path]:
    folder = os.environ.get("GRAMA_DATA")
    if not folder:
        return []
    planetoid = sorted(Path(folder, "planetoid").glob("*/raw/ind.*"))
    return [path for path in planetoid if path.suffix != ".index"] + sorted(
        Path(folder, "peptides-functional").glob("*.pickle")
    )


@pytest.mark.skipif(not os.environ.get("GRAMA_DATA"), reason="GRAMA_DATA names no data folder")
@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_published_files_equal_what_pickle_reads(path: Path) -> None:
    loaded = load_pickle(path)
    with path.open("rb") as stream:
        expected = pickle.load(stream, encoding="latin1")
    if scipy.sparse.issparse(expected):
        assert isinstance(loaded, CsrMatrix)
        assert same(loaded.toarray(), expected.toarray())
    else:
        assert same(loaded, expected)
