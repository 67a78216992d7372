import pickle
import zipfile

import numpy as np
import pytest
import torch
from published_files import Boom, assert_refused, assert_same, place, write_zip
from torch_geometric.datasets import ZINC

from torch_grama.datasets import DatasetError, UnsafePickleError, load

PARTS = ("train", "val", "test")


def _molecules(seed, count):
    random = np.random.RandomState(seed)
    molecules = []
    for _ in range(count):
        size = int(random.randint(2, 7))
        bonds = np.zeros((size, size), dtype=np.int64)
        for node in range(1, size):
            other = random.randint(0, node)
            bonds[node, other] = bonds[other, node] = random.randint(1, 4)
        molecules.append(
            {
                "num_atom": size,
                "atom_type": torch.from_numpy(random.randint(0, 28, size=size)),
                "bond_type": torch.from_numpy(bonds),
                "logP_SA_cycle_normalized": torch.tensor([random.normal()], dtype=torch.float),
            }
        )
    return molecules


def _write_archive(root, contents=None):
    contents = contents or [_molecules(seed, 6) for seed in range(3)]
    pickles = {
        f"molecules/{part}.pickle": pickle.dumps(content)
        for part, content in zip(PARTS, contents, strict=True)
    }
    for part in PARTS:
        place(root, f"zinc12k/{part}.index").write_text("4,0,2\n")
    return write_zip(root / "zinc12k/molecules.zip", pickles)


def test_official_archive_equals_what_pyg_reads(tmp_path):
    path = _write_archive(tmp_path)
    task = load("ZINC", tmp_path)
    assert task.notes == ()
    raw = tmp_path / "pyg" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(path) as archive:
        for part in PARTS:
            (raw / f"{part}.pickle").write_bytes(archive.read(f"molecules/{part}.pickle"))
            (raw / f"{part}.index").write_text("4,0,2\n")
    assert torch.cat(task.folds[0].parts).tolist() == list(range(9))
    for part, numbers in zip(PARTS, task.folds[0].parts, strict=True):
        expected = ZINC(str(tmp_path / "pyg"), subset=True, split=part)
        for number, theirs in zip(numbers.tolist(), expected, strict=True):
            ours = task.graphs[number]
            assert_same(ours, theirs, "x", "edge_index")
            assert torch.equal(ours.edge_attr.flatten(), theirs.edge_attr)
            assert torch.equal(ours.y.flatten(), theirs.y)
    assert task.node_encoding.sizes == (28,)
    assert task.edge_encoding.sizes == (4,)


def test_hostile_and_other_pickles_are_refused(tmp_path, capsys):
    for content, kind, message in (
        ([Boom()], UnsafePickleError, "print"),
        ({"a": 1}, DatasetError, r"train\.pickle"),
        ([{"atom_type": 3}] * 6, DatasetError, r"train\.pickle"),
    ):
        _write_archive(tmp_path, [content] * 3)
        with pytest.raises(kind, match=message):
            load("zinc", tmp_path)
    assert "boom" not in capsys.readouterr().out


def test_damaged_archive(tmp_path):
    path = _write_archive(tmp_path)
    whole = path.read_bytes()
    for length in (0, 50, len(whole) // 2):
        path.write_bytes(whole[:length])
        assert_refused("zinc", tmp_path, r"molecules\.zip")
    path.write_bytes(whole)
    for words, sentence in (("0,x", r"val\.index"), ("0,6", r"val\.pickle")):
        (tmp_path / "zinc12k/val.index").write_text(words)
        assert_refused("zinc", tmp_path, sentence)


def _arrays():
    arrays = {}
    for seed, part in enumerate(PARTS):
        molecules = _molecules(seed, 2)
        dense = [m["bond_type"].numpy() for m in molecules]
        edges = [np.stack(np.nonzero(d)) for d in dense]
        numbers = {
            "x": np.concatenate([m["atom_type"].numpy() for m in molecules]),
            "num_nodes": [len(d) for d in dense],
            "edge_index": np.concatenate(edges, axis=1),
            "edge_attr": np.concatenate([d[d > 0] for d in dense]),
            "num_edges": [e.shape[1] for e in edges],
        }
        arrays |= {f"{part}_{name}": np.array(n, np.uint8) for name, n in numbers.items()}
        arrays[f"{part}_y"] = np.array([float(seed), 0.5], np.float32)
    return arrays


def test_rebuilt_arrays(tmp_path):
    np.savez(place(tmp_path, "zinc12k/zinc12k_graphs.npz"), **_arrays())
    task = load("zinc12k", tmp_path)
    assert any("recomputed" in note for note in task.notes)
    assert len(task.graphs) == 6
    first = _molecules(2, 1)[0]
    graph = task.graphs[4]
    assert torch.equal(graph.x.flatten(), first["atom_type"])
    assert torch.equal(graph.edge_index, first["bond_type"].nonzero().t())
    assert graph.y.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("val_x", np.full(99, 1, np.uint8), "fit together"),
        ("train_edge_attr", None, "train_edge_attr"),
        ("test_edge_index", np.zeros((2, 0), np.uint8), "fit together"),
        ("train_x", _arrays()["train_x"] + 40, "types up to"),
        ("val_edge_attr", _arrays()["val_edge_attr"] + 40, "types up to"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, name, value, message):
    arrays = {n: a for n, a in {**_arrays(), name: value}.items() if a is not None}
    np.savez(place(tmp_path, "zinc12k/zinc12k_graphs.npz"), **arrays)
    assert_refused("zinc", tmp_path, message)
