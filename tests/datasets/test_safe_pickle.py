import contextlib
import io
import os
import pickle
import pickletools
import random
import struct
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from torch_grama.datasets import DatasetError, UnsafePickleError
from torch_grama.datasets.safe_pickle import SparseMatrix, load_pickle

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


@settings(max_examples=60)
@given(
    array=st_numpy.arrays(
        st.one_of(
            st_numpy.integer_dtypes(endianness="?"),
            st_numpy.floating_dtypes(endianness="?"),
            st_numpy.boolean_dtypes(),
            st_numpy.unicode_string_dtypes(endianness="?", max_len=4),
        ),
        st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    protocol=st.integers(0, 5),
)
def test_arrays_come_back(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, protocol: int
) -> None:
    folder = tmp_path_factory.mktemp("array")
    native = array.astype(array.dtype.newbyteorder("="))
    assert same(load_bytes(folder, pickle.dumps(array, protocol)), native)


@every_protocol
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_matrices_come_back(tmp_path: Path, kind: str, protocol: int) -> None:
    dense = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3], [0, 4, 0]], dtype=np.float32)
    matrix = getattr(scipy.sparse, f"{kind}_matrix")(dense)
    loaded = load_bytes(tmp_path, pickle.dumps([matrix, matrix], protocol))
    assert isinstance(loaded, list)
    assert isinstance(loaded[0], SparseMatrix)
    assert loaded[0] is loaded[1]
    assert loaded[0].shape == (4, 3)
    assert np.array_equal(loaded[0].toarray(), dense)
    assert loaded[0].value.dtype == np.float32


def test_shared_and_circular_containers(tmp_path: Path) -> None:
    circle: list[object] = []
    circle.append(circle)
    loaded = load_bytes(tmp_path, pickle.dumps(circle))
    assert isinstance(loaded, list)
    assert loaded[0] is loaded
    array = np.arange(4)
    shared = load_bytes(tmp_path, pickle.dumps([array] * 1000))
    assert isinstance(shared, list)
    assert all(item is shared[0] for item in shared)


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
    assert isinstance(matrix, SparseMatrix)
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
    "numpy.f2py.diagnose run_command": b"cnumpy.f2py.diagnose\nrun_command\n(S'id'\ntR.",
    "numpy.testing._private.utils runstring": (
        b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR."
    ),
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0bos.system.x\x93\x8c\x02id\x85R.",
    "submodule of an allowed one": b"\x80\x04\x8c\x05numpy\x8c\x08ndarray.\x93.",
    "builtins through collections": b"ccollections\nabc\n.",
    "old instance": b"(cos\nsystem\nS'id'\no.",
    "old inst opcode": b"(S'id'\nios\nsystem\n.",
    "extension registry": b"\x80\x02\x82\x01.",
    "persistent id": b"Pid\n.",
    "persistent id from the stack": b"\x80\x02K\x01Q.",
    "buffer outside": b"\x80\x05\x97.",
    "class itself": b"cnumpy\nndarray\n.",
    "matrix class itself": b"cscipy.sparse\ncsr_matrix\n.",
    "bytes of a length": b"c__builtin__\nbytes\n(I1000000000\ntR.",
    "list of a list": b"c__builtin__\nlist\n((ltR.",
    "list of a dict": b"c__builtin__\nlist\n((dtR.",
    "set of two": b"c__builtin__\nset\n((lI1\ntR.",
    "object": b"c__builtin__\nobject\n(tR.",
    "ndarray with a shape": b"cnumpy\nndarray\n((I1000000\ntS'f8'\ntR.",
    "ordered pairs of text": b"ccollections\nOrderedDict\n(S'ab'\ntR.",
    "defaultdict with a call": b"ccollections\ndefaultdict\n(cnumpy\ndtype\ntR.",
    "defaultdict of nothing": b"ccollections\ndefaultdict\n(tR.",
    "encode as something": b"c_codecs\nencode\n(S'ab'\nS'rot13'\ntR.",
    "state of a name": b"cnumpy\ndtype\n(dS'call'\nI1\nsb.",
    "state of a name by slots": b"cnumpy\ndtype\n(N(dS'call'\nI1\nstb.",
    "subclass of ndarray": (
        b"cnumpy._core.multiarray\n_reconstruct\n(c__builtin__\nlist\n(I0\ntS'b'\ntR."
    ),
    "reconstructor of a list": (
        b"ccopyreg\n_reconstructor\n(c__builtin__\nlist\nc__builtin__\nobject\nNtR."
    ),
}


@pytest.mark.parametrize("content", GADGETS.values(), ids=GADGETS)
def test_gadgets_are_refused(tmp_path: Path, content: bytes) -> None:
    pickletools.dis(content, io.StringIO())  # it is a whole pickle, refused for what it asks
    with pytest.raises(UnsafePickleError):
        load_bytes(tmp_path, content)


def dtype_state(code: str, state: str = "(I3\nS'<'\nNNNI-1\nI-1\nI0\nt") -> str:
    return f"cnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR{state}b"


def array_bytes(shape: str, dtype: str, raw: str) -> bytes:
    return (
        "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        f"(I1\n{shape}{dtype}I00\n{raw}tb."
    ).encode()


ABSURD = {
    "more than is there": array_bytes("(I1000000000000\nt", dtype_state("f8"), "S'12345678'\n"),
    "less than is there": array_bytes("(I1\nt", dtype_state("f4"), "S'12345678'\n"),
    "negative": array_bytes("(I-1\nt", dtype_state("f4"), "S'1234'\n"),
    "overflow": array_bytes(f"(I{2**62}\nI8\nt", dtype_state("f8"), "S''\n"),
    "nothing of a huge shape": array_bytes(f"(I0\nI{2**62}\nt", dtype_state("f8"), "S''\n"),
    "a text as shape": array_bytes("S'abc'\n", dtype_state("f8"), "S''\n"),
    "no dtype": array_bytes("(I1\nt", "N", "S'1'\n"),
    "objects": array_bytes("(I1\nt", dtype_state("O8"), "(lI1\na"),
    "objects in a list": array_bytes("(I1\nt", dtype_state("i8"), "(lI1\na"),
    "nothing wide": array_bytes("(I1000000000000\nt", dtype_state("S0"), "S''\n"),
    "records": array_bytes(
        "(I1\nt", dtype_state("V8", "(I3\nS'|'\nN(S'a'\nt(dtI8\nI1\nI0\nt"), "S'12345678'\n"
    ),
    "fields behind a plain code": array_bytes(
        "(I1\nt", dtype_state("i8", "(I3\nS'|'\nN(S'a'\nt(dI8\nI1\nI0\nt"), "S'12345678'\n"
    ),
    "a dtype of dates": array_bytes("(I1\nt", dtype_state("M8"), "S'12345678'\n"),
    "a dtype by name": array_bytes("(I1\nt", dtype_state("float64"), "S'12345678'\n"),
    "an order that is none": array_bytes(
        "(I1\nt", dtype_state("i8", "(I3\nS'#'\nNNNI-1\nI-1\nI0\nt"), "S'12345678'\n"
    ),
    "a state that is none": array_bytes("(I1\nt", dtype_state("i8", "I3\n"), "S'12345678'\n"),
    "no state": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR.",
    "half a state": (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\ntb."
    ),
    "huge memo": b"\x80\x02Nr\xff\xff\xff\xff.",
    "huge text memo": b"Np4000000000\n.",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.",
    "huge bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"abc.",
    "huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"abc.",
    "huge frame": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "huge number": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"abc.",
    "two objects": b"N.N.",
    "no end": b"N",
    "empty": b"",
    "page": b"<!doctype html><html></html>",
    "stack underflow": b"\x80\x02t.",
}


@pytest.mark.parametrize("content", ABSURD.values(), ids=ABSURD)
def test_absurd_sizes_and_garbage(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"data\.pickle'"):
        load_bytes(tmp_path, content)


def test_nesting_without_end(tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        load_bytes(tmp_path, b"]" * 100_000 + b"a" * 99_999 + b".")


def sparse(kind: str = "csr", **changed: object) -> bytes:
    parts: dict[str, object] = {
        "_shape": (2, 3),
        "data": np.array([1.0, 2.0]),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([0, 2]),
        "row": np.array([0, 1]),
        "col": np.array([0, 2]),
    }
    matrix = getattr(scipy.sparse, f"{kind}_matrix")((2, 3))
    matrix.__dict__.clear()
    matrix.__dict__.update({**parts, **changed})
    return pickle.dumps(matrix, 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"_shape": (2, 10**15)},
        {"_shape": (10**15, 3)},
        {"_shape": (2,)},
        {"_shape": [2, 3]},
        {"_shape": (2, -3)},
        {"data": np.array([1.0])},
        {"data": None},
        {"data": np.ones((2, 1))},
        {"indptr": np.array([0, 2])},
        {"indptr": np.array([0, 3, 2])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, 1, 2**40])},
        {"indptr": np.array([0.0, 1.0, 2.0])},
        {"indices": np.array([0, 3])},
        {"indices": np.array([-1, 2])},
        {"indices": np.array([0])},
        {"indices": np.array([0.0, 1.0])},
    ],
)
def test_sparse_matrices_are_checked(tmp_path: Path, changed: dict[str, object]) -> None:
    load_bytes(tmp_path, sparse())
    with pytest.raises(DatasetError, match="sparse matrix"):
        load_bytes(tmp_path, sparse(**changed))


def test_sparse_entries_are_checked(tmp_path: Path) -> None:
    load_bytes(tmp_path, sparse("coo"))
    with pytest.raises(DatasetError, match="'col' leaves its shape"):
        load_bytes(tmp_path, sparse("coo", col=np.array([0, 3])))
    with pytest.raises(DatasetError, match="differ in length"):
        load_bytes(tmp_path, sparse("coo", col=np.array([0])))
    with pytest.raises(DatasetError, match="unknown make"):
        load_bytes(tmp_path, b"cscipy.sparse\ncsr_matrix\n)\x81I1\nb.")


def test_a_file_cannot_unfold_to_more_than_it_holds(tmp_path: Path) -> None:
    # One text of 100 kB, from which every short line of the file asks for another array.
    raw = "S'" + "x" * 100_000 + "'\np9\n"
    head = "(l" + raw + "0" + dtype_state("i1") + "p8\n0"
    more = (
        "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        "(I1\n(I100000\ntg8\nI00\ng9\ntba"
    )
    with pytest.raises(DatasetError, match="far more than it holds"):
        load_bytes(tmp_path, (head + more * 1000 + ".").encode())
    copies = "c__builtin__\nset\n(g7\ntRa"
    big = "(l(l" + "I1\na" * 5000 + "p7\n0"
    with pytest.raises(DatasetError, match="far more than it holds"):
        load_bytes(tmp_path, (big + copies * 5000 + ".").encode())


def test_damaged_files_give_nothing_but_dataset_errors(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32))
    table = {"a": np.arange(5), "m": matrix, "l": [1, "x", 2.5], "d": defaultdict(list)}
    generator = random.Random(0)
    for protocol in (0, 2, 4, 5):
        whole = pickle.dumps(table, protocol)
        damaged = [whole[:cut] for cut in range(0, len(whole), 3)]
        for _ in range(300):
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
        assert isinstance(loaded, SparseMatrix)
        assert np.array_equal(loaded.toarray(), expected.toarray())
        assert loaded.value.dtype == expected.dtype
    else:
        assert same(loaded, expected)
