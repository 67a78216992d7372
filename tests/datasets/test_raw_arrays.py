import contextlib
import operator
import os
import pickle
import random
import struct
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import scipy.sparse

from torch_grama.datasets import DatasetError, UnsafePickleError
from torch_grama.datasets.raw_arrays import CsrMatrix, fingerprint, load_pickle

every_protocol = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


def load_bytes(folder, content):
    path = folder / "data.pickle"
    path.write_bytes(content)
    return load_pickle(path)


class Reduced:
    """Pickles as a call of anything with anything."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(right, np.ndarray | np.generic):
        alike = left.dtype == right.dtype and left.shape == right.shape
        return alike and left.tobytes() == right.tobytes()
    if isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in right)
    return left == right


@every_protocol
def test_plain_data_comes_back(tmp_path, protocol):
    plain = {
        "plain": [None, 1, -2.5, 10**40, True, "ü", b"bytes", {1, 2}, frozenset({3}), {1: {2: ()}}],
        "factory": defaultdict(list, {0: [1, 2]}),
        "ordered": OrderedDict([("z", 1), ("a", 2)]),
        "scalar": np.float32(1.5),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "empty": np.zeros((0, 4), dtype=np.float16),
        "words": np.array(["a", "bcd"]),
        "dtype": np.dtype("f4"),
    }
    loaded = load_bytes(tmp_path, pickle.dumps(plain, protocol))
    assert same(loaded, plain)


@every_protocol
def test_sparse_matrices_come_back(tmp_path, protocol):
    dense = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3], [0, 4, 0]], dtype=np.float32)
    loaded = load_bytes(tmp_path, pickle.dumps(scipy.sparse.csr_matrix(dense), protocol))
    assert isinstance(loaded, CsrMatrix)
    assert same(loaded.toarray(), dense)


def test_old_names_and_the_text_of_python_2(tmp_path):
    """As Python 2 wrote it: protocol 2, byte strings, names that have moved since."""
    raw = struct.pack("<2i", 7, 250)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x02\x85"
        b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK"
        b"\x00tb\x89U\x08" + raw + b"tb"
    )
    ends = array.replace(raw, struct.pack("<2i", 0, 2))
    matrix = load_bytes(
        tmp_path,
        b"\x80\x02ccopy_reg\n_reconstructor\n(cscipy.sparse.csr\ncsr_matrix\nc__builtin__\nobject\n"
        b"NtR}(U\x06_shapeK\x01K\x03\x86U\x04data" + array + b"U\x06indptr" + ends
        # the columns of the two entries are 0 and 2, as the row's bounds are
        + b"U\x07indices" + ends + b"ub.",
    )  # fmt: skip
    assert isinstance(matrix, CsrMatrix)
    assert matrix.toarray().tolist() == [[7, 0, 250]]
    ordered = b"ccollections\nOrderedDict\n((l(lS'z'\naI1\naa(lS'a'\naI2\naatR."
    assert same(load_bytes(tmp_path, ordered), OrderedDict([("z", 1), ("a", 2)]))
    assert load_bytes(tmp_path, b"c__builtin__\nlong\n(S'12'\ntR.") == 12


@pytest.mark.parametrize(
    "call",
    [
        (os.system, ("touch pwned",)),
        (eval, ("open('pwned', 'w')",)),
        (getattr, ("text", "upper")),
        (open, ("pwned", "w")),
        (operator.attrgetter, ("__class__",)),
        (np.fromfile, ("/etc/hosts",)),
        (bytearray, (10**12,)),
        (type, ("X", (), {})),
    ],
    ids=lambda call: call[0].__name__,
)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_calls_are_refused_and_named(tmp_path, monkeypatch, call, nested, protocol):
    monkeypatch.chdir(tmp_path)
    hostile = Reduced(*call)
    if nested:
        hostile = {"x": [np.arange(3), Reduced(dict, ([(1, (2, hostile))],))]}
    with pytest.raises(UnsafePickleError) as caught:
        load_bytes(tmp_path, pickle.dumps(hostile, protocol, fix_imports=False))
    assert "data.pickle' is refused because it asks for" in str(caught.value)
    if not nested:
        assert f"{call[0].__name__}'" in str(caught.value)
    assert os.listdir(tmp_path) == ["data.pickle"]


GADGETS = {
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0bos.system.x\x93\x8c\x02id\x85R.",
    "submodule of an allowed one": b"\x80\x04\x8c\x05numpy\x8c\x08ndarray.\x93.",
    "builtins through collections": b"ccollections\nabc\n.",
    "old instance": b"(cos\nsystem\nS'id'\no.",
    "old inst opcode": b"(S'id'\nios\nsystem\n.",
}


@pytest.mark.parametrize("content", GADGETS.values(), ids=GADGETS)
def test_gadgets_are_refused(tmp_path, content):
    with pytest.raises(UnsafePickleError):
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
def test_sparse_matrices_are_checked(tmp_path, changed):
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 0, 0], [0, 0, 2]]))
    matrix.__dict__.update(changed)
    loaded = load_bytes(tmp_path, pickle.dumps(matrix, 2))
    with pytest.raises((ValueError, AttributeError, IndexError, MemoryError)):
        loaded.toarray()


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_give_nothing_but_dataset_errors(tmp_path):
    table = {"a": np.arange(5), "m": scipy.sparse.csr_matrix(np.eye(3)), "l": [1, "x", 2.5]}
    generator = random.Random(0)
    damaged = [b"", b"N", b"Pid\n.", b"<!doctype html>", b"\x80\x02\x82\x01.", b"\x80\x02t."]
    huge = struct.pack("<Q", 2**62)
    damaged += [b"\x80\x04\x8d" + huge + b"abc.", b"\x80\x04\x95" + huge + b"N.", b"\x80\x05\x97."]
    for content in damaged:
        with pytest.raises(DatasetError, match=r"data\.pickle'"):
            load_bytes(tmp_path, content)
    with pytest.raises(DatasetError, match="No such file"):
        load_pickle(tmp_path / "no.pickle")
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


def test_published_files_equal_what_pickle_reads(real_data):
    planetoid = [
        path for path in real_data.glob("planetoid/*/raw/ind.*") if path.suffix != ".index"
    ]
    for path in (*planetoid, *real_data.glob("peptides-functional/*.pickle")):
        loaded = load_pickle(path)
        with path.open("rb") as stream:
            expected = pickle.load(stream, encoding="latin1")
        if scipy.sparse.issparse(expected):
            assert isinstance(loaded, CsrMatrix)
            loaded, expected = loaded.toarray(), expected.toarray()
        assert same(loaded, expected), path


def test_fingerprints_tell_data_apart():
    same = fingerprint(["nodes", np.arange(4)])
    assert same == fingerprint(["nodes", np.arange(8)[:4]])
    assert same == fingerprint(["nodes", np.arange(4).astype(">i8")])
    others = [
        ["node", np.arange(4)],
        ["nodes", np.arange(5)],
        ["nodes", np.arange(4).reshape(2, 2)],
        ["nodes", np.arange(4).astype(np.int32)],
        ["nodes", np.arange(4).astype(float)],
        [np.arange(4), "nodes"],
        ["nodes"],
    ]
    assert len({same, *(fingerprint(other) for other in others)}) == len(others) + 1
