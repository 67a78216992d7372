"""The published files against the published numbers; they lie in the folder of GRAMA_DATA."""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import HeterophilousGraphDataset, Planetoid

from torch_grama.datasets import load
from torch_grama.datasets.catalogue import CATALOGUE
from torch_grama.datasets.describe import compare
from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.transforms import RWSE

pytestmark = pytest.mark.usefixtures("own_folders")

FROM_FILES = [name for name, entry in CATALOGUE.items() if entry.sources]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


def _load(name: str, root: Path, **options: object):
    if Storage(root).find_source(CATALOGUE[name].sources) is None:
        pytest.skip(f"the files of {name} are not in the folder of GRAMA_DATA")
    return load(name, root, **options)


@pytest.mark.parametrize("name", FROM_FILES)
def test_statistics_equal_the_published_ones(name: str, root: Path, real_data: Path) -> None:
    task = _load(name, root)
    rows = compare(task, CATALOGUE[name].published)
    assert [row for row in rows if row.agrees is False] == []
    assert sum(row.agrees is True for row in rows) >= 6
    fold = task.folds[0]
    if fold.train.dtype == torch.bool:
        for each in task.folds:
            assert int(torch.stack(each.parts).sum(dim=0).max()) == 1
    else:
        together = torch.cat(fold.parts)
        assert sorted(together.tolist()) == list(range(len(task.graphs)))
    graph = task.graphs[len(task.graphs) // 2]
    assert graph.validate(raise_on_error=True)
    assert graph.x.size(-1) == task.node_encoding.num_columns


@pytest.mark.parametrize("name", FROM_FILES)
def test_documented_checksums(name: str, real_data: Path) -> None:
    files: list[DataFile] = [f for source in CATALOGUE[name].sources for f in source.files]
    here = [(file, real_data / file.path) for file in files if (real_data / file.path).is_file()]
    if not here:
        pytest.skip(f"no file of {name} is in the folder of GRAMA_DATA")
    for file, path in here:
        if file.md5 is not None:
            assert hashlib.md5(path.read_bytes()).hexdigest() == file.md5, file.path
        if file.size is not None:
            assert path.stat().st_size == file.size, file.path


def test_shared_folder_is_never_written_to(root: Path, real_data: Path) -> None:
    before = sorted((str(p), p.stat().st_mtime_ns) for p in real_data.rglob("*"))
    for name in ("minesweeper", "zinc", "chickenpox", "cora"):
        _load(name, real_data)
    _load("cora", root, transforms=[RWSE(2)])
    assert sorted((str(p), p.stat().st_mtime_ns) for p in real_data.rglob("*")) == before


def test_peptides_are_small(root: Path, real_data: Path) -> None:
    task = _load("peptides-func", root)
    (file,) = (root / "compact").glob("peptides-func-v*.npz")
    assert file.stat().st_size < 16_000_000
    labels = np.concatenate([task.graphs[k].y.numpy() for k in range(0, 15_535, 50)])
    assert set(np.unique(labels)) == {0, 1}


@pytest.mark.skipif(importlib.util.find_spec("rdkit") is None, reason="needs rdkit and ogb")
def test_peptide_arrays_equal_the_featurised_smiles(real_data: Path) -> None:
    from torch_grama.datasets.molecules import _from_arrays, _read_csv, featurise

    csv = real_data / "peptides-functional/raw/peptide_multi_class_dataset.csv.gz"
    arrays = real_data / "peptides-functional/peptides_func_graphs.npz"
    if not csv.exists() or not arrays.exists():
        pytest.skip("the peptide files are not in the folder of GRAMA_DATA")
    smiles, y = _read_csv(csv, is_func=True)
    graphs = _from_arrays(arrays)
    assert len(smiles) == len(graphs)
    chosen = range(0, len(smiles), 400)
    made = featurise([smiles[k] for k in chosen], y[list(chosen)], str(csv))
    for ours, number in zip(made, chosen, strict=True):
        stored = graphs[number]
        for name in ("x", "edge_index", "edge_attr", "y"):
            assert torch.equal(ours[name], stored[name]), (number, name)


def test_positives_of_molhiv(root: Path, real_data: Path) -> None:
    task = _load("ogbg-molhiv", root)
    labels = task.graphs.columns["y"].values
    fold = task.folds[0]
    counts = [int(labels[part.numpy()].sum()) for part in fold.parts]
    assert counts == [1232, 81, 130]


def test_parts_of_zinc(root: Path, real_data: Path) -> None:
    task = _load("zinc", root)
    fold = task.folds[0]
    nodes = [int(task.graphs.num_nodes[part.numpy()].sum()) for part in (fold.train, fold.val)]
    assert nodes == [231_664, 23_083]
    assert int(task.graphs.num_edges[fold.test.numpy()].sum()) == 49_720
    assert int(task.graphs.columns["x"].values.max()) == 20


@pytest.mark.parametrize(("name", "expected"), [("chickenpox", 1.1172), ("pedalme", 1.4888)])
def test_zero_predictor(name: str, expected: float, root: Path, real_data: Path) -> None:
    task = _load(name, root)
    errors = [task.graphs[int(number)].y.square().mean() for number in task.folds[0].test]
    assert float(torch.stack(errors).mean()) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("name", "expected"), [("chickenpox", 0.8188), ("pedalme", 1.3916)])
def test_autoregression(name: str, expected: float, root: Path, real_data: Path) -> None:
    """Pooled ridge regression on the four lags, fitted on training and validation steps."""
    task = _load(name, root)
    fold = task.folds[0]

    def rows(numbers: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        graphs = [task.graphs[k] for k in numbers.tolist()]
        x = torch.cat([g.x.squeeze(-1) for g in graphs]).double()
        ones = torch.ones(len(x), 1, dtype=torch.double)
        return torch.cat([x, ones], dim=1).numpy(), torch.cat([g.y for g in graphs]).numpy()

    x, y = rows(torch.cat([fold.train, fold.val]))
    weights = np.linalg.solve(x.T @ x + 1e-3 * np.eye(5), x.T @ y)
    x, y = rows(fold.test)
    assert float(np.mean((x @ weights - y) ** 2)) == pytest.approx(expected, abs=2e-3)


def test_minesweeper_features(root: Path, real_data: Path) -> None:
    graph = _load("minesweeper", root).graphs[0]
    assert torch.equal(graph.x.sum(dim=1), torch.ones(10_000))
    assert int(graph.y.sum()) == 2000
    assert not graph.has_self_loops()
    assert graph.is_coalesced()


def test_heterophilous_equals_pyg(root: Path, real_data: Path, tmp_path: Path) -> None:
    task = _load("minesweeper", root)
    raw = tmp_path / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    source = real_data / "heterophilous/minesweeper/raw/minesweeper.npz"
    (raw / "minesweeper.npz").write_bytes(source.read_bytes())
    expected = HeterophilousGraphDataset(str(tmp_path), "Minesweeper")[0]
    assert torch.equal(task.graphs[0].x, expected.x)
    assert torch.equal(task.graphs[0].edge_index, expected.edge_index)
    assert torch.equal(task.folds[7].val, expected.val_mask[:, 7])


@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_citations_equal_pyg(name: str, root: Path, real_data: Path, tmp_path: Path) -> None:
    task = _load(name.lower(), root, normalize=False)
    raw = tmp_path / name / "geom-gcn" / "raw"
    raw.mkdir(parents=True)
    for path in (real_data / "planetoid" / name / "raw").iterdir():
        (raw / path.name).write_bytes(path.read_bytes())
    expected = Planetoid(str(tmp_path), name, split="geom-gcn")[0]
    assert torch.equal(task.graphs[0].x, expected.x)
    assert torch.equal(task.graphs[0].y, expected.y)
    assert torch.equal(task.graphs[0].edge_index, expected.edge_index)
    for number, fold in enumerate(task.folds):
        assert torch.equal(fold.train, expected.train_mask[:, number])
        assert torch.equal(fold.test, expected.test_mask[:, number])


def test_nodes_of_cora_in_no_part(root: Path, real_data: Path) -> None:
    task = _load("cora", root)
    for fold in task.folds:
        assert int((~(fold.train | fold.val | fold.test)).sum()) == 223
    public = _load("cora", root, split="public")
    fold = public.folds[0]
    assert [int(p.sum()) for p in fold.parts] == [140, 500, 1000]
