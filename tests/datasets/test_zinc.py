import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import ZINC

from torch_grama.datasets.catalogue import find
from torch_grama.datasets.errors import DatasetError, UnsafePickleError
from torch_grama.datasets.storage import Storage

pytestmark = pytest.mark.usefixtures("own_folders")

PARTS = ("train", "val", "test")


def _molecules(seed: int, count: int) -> list[dict[str, object]]:
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


def _write_archive(root: Path) -> Path:
    folder = root / "zinc12k"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "molecules.zip", "w") as archive:
        for seed, part in enumerate(PARTS):
            archive.writestr(f"molecules/{part}.pickle", pickle.dumps(_molecules(seed, 6)))
            (folder / f"{part}.index").write_text("4,0,2\n")
    return folder / "molecules.zip"


def test_official_archive_equals_what_pyg_reads(tmp_path: Path) -> None:
    path = _write_archive(tmp_path)
    task = find("ZINC").load(Storage(tmp_path))
    assert task.notes == ()
    raw = tmp_path / "pyg" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(path) as archive:
        for part in PARTS:
            (raw / f"{part}.pickle").write_bytes(archive.read(f"molecules/{part}.pickle"))
            (raw / f"{part}.index").write_text("4,0,2\n")
    place = 0
    for part, numbers in zip(
        PARTS, (task.folds[0].train, task.folds[0].val, task.folds[0].test), strict=True
    ):
        expected = ZINC(str(tmp_path / "pyg"), subset=True, split=part)
        assert numbers.tolist() == [place, place + 1, place + 2]
        for number, theirs in zip(numbers.tolist(), expected, strict=True):
            ours = task.graphs[number]
            assert torch.equal(ours.x, theirs.x)
            assert torch.equal(ours.edge_index, theirs.edge_index)
            assert torch.equal(ours.edge_attr.flatten(), theirs.edge_attr)
            assert torch.equal(ours.y.flatten(), theirs.y)
        place += 3
    assert task.node_encoding.sizes == (28,)
    assert task.edge_encoding.sizes == (4,)


class _Boom:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, ("touch boom",))


def test_hostile_and_other_pickles_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _write_archive(tmp_path)
    for content, kind, message in (
        ([_Boom()], UnsafePickleError, "system"),
        ({"a": 1}, DatasetError, r"train\.pickle"),
        ([{"atom_type": 3}] * 6, DatasetError, r"train\.pickle"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for part in PARTS:
                archive.writestr(f"molecules/{part}.pickle", pickle.dumps(content))
        with pytest.raises(kind, match=message):
            find("zinc").load(Storage(tmp_path))
    assert not (tmp_path / "boom").exists()


def test_damaged_archive(tmp_path: Path) -> None:
    path = _write_archive(tmp_path)
    whole = path.read_bytes()
    for length in (0, 50, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(DatasetError, match=r"molecules\.zip"):
            find("zinc").load(Storage(tmp_path))
    path.write_bytes(whole)
    (tmp_path / "zinc12k/val.index").write_text("0,x")
    with pytest.raises(DatasetError, match=r"val\.index"):
        find("zinc").load(Storage(tmp_path))
    (tmp_path / "zinc12k/val.index").write_text("0,6")
    with pytest.raises(DatasetError, match=r"val\.pickle"):
        find("zinc").load(Storage(tmp_path))


def _arrays() -> dict[str, np.ndarray]:
    arrays = {}
    for seed, part in enumerate(PARTS):
        molecules = _molecules(seed, 2)
        dense = [m["bond_type"].numpy() for m in molecules]
        edges = [np.stack(np.nonzero(d)) for d in dense]
        arrays |= {
            f"{part}_x": np.concatenate([m["atom_type"].numpy() for m in molecules]),
            f"{part}_num_nodes": np.array([len(d) for d in dense]),
            f"{part}_edge_index": np.concatenate(edges, axis=1),
            f"{part}_edge_attr": np.concatenate(
                [d[tuple(e)] for d, e in zip(dense, edges, strict=True)]
            ),
            f"{part}_num_edges": np.array([e.shape[1] for e in edges]),
            f"{part}_y": np.array([float(seed), 0.5], np.float32),
        }
    return {
        name: array if name.endswith("_y") else array.astype(np.uint8)
        for name, array in arrays.items()
    }


def test_rebuilt_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "zinc12k"
    folder.mkdir()
    arrays = _arrays()
    np.savez(folder / "zinc12k_graphs.npz", **arrays)
    task = find("zinc12k").load(Storage(tmp_path))
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
def test_arrays_that_do_not_fit(
    tmp_path: Path, name: str, value: np.ndarray | None, message: str
) -> None:
    folder = tmp_path / "zinc12k"
    folder.mkdir()
    arrays = {**_arrays(), name: value}
    np.savez(folder / "zinc12k_graphs.npz", **{n: a for n, a in arrays.items() if a is not None})
    with pytest.raises(DatasetError, match=message):
        find("zinc").load(Storage(tmp_path))
