"""The published files against the published numbers; they lie in the folder of GRAMA_DATA."""

import hashlib
import importlib.util

import numpy as np
import pytest
import torch
from published_files import assert_same

from torch_grama.datasets import load
from torch_grama.datasets.catalogue import CATALOGUE
from torch_grama.datasets.describe import compare
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.transforms import RWSE

FROM_FILES = [name for name, entry in CATALOGUE.items() if entry.sources]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared")


def _load(name, root, **options):
    if Storage(root).find_source(CATALOGUE[name].sources) is None:
        pytest.skip(f"the files of {name} are not in the folder of GRAMA_DATA")
    return load(name, root, **options)


@pytest.mark.parametrize("name", FROM_FILES)
def test_statistics_equal_the_published_ones(name, root, real_data):
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
def test_documented_checksums(name, real_data):
    files = [f for source in CATALOGUE[name].sources for f in source.files]
    here = [(file, real_data / file.path) for file in files if (real_data / file.path).is_file()]
    if not here:
        pytest.skip(f"no file of {name} is in the folder of GRAMA_DATA")
    for file, path in here:
        if file.md5 is not None:
            assert hashlib.md5(path.read_bytes()).hexdigest() == file.md5, file.path
        if file.size is not None:
            assert path.stat().st_size == file.size, file.path


def test_shared_folder_is_never_written_to(root, real_data):
    before = sorted((str(p), p.stat().st_mtime_ns) for p in real_data.rglob("*"))
    for name in ("minesweeper", "zinc", "chickenpox", "cora"):
        _load(name, real_data)
    _load("cora", root, transforms=[RWSE(2)])
    assert sorted((str(p), p.stat().st_mtime_ns) for p in real_data.rglob("*")) == before


def test_peptides_are_small(root, real_data):
    task = _load("peptides-func", root)
    (file,) = (root / "compact").glob("peptides-func-v*.npz")
    assert file.stat().st_size < 16_000_000
    labels = np.concatenate([task.graphs[k].y.numpy() for k in range(0, 15_535, 50)])
    assert set(np.unique(labels)) == {0, 1}


@pytest.mark.skipif(importlib.util.find_spec("rdkit") is None, reason="needs rdkit and ogb")
def test_peptide_arrays_equal_the_featurised_smiles(real_data):
    from torch_grama.datasets.molecules import _peptides_from_arrays, _read_csv, featurise

    csv = real_data / "peptides-functional/raw/peptide_multi_class_dataset.csv.gz"
    arrays = real_data / "peptides-functional/peptides_func_graphs.npz"
    if not csv.exists() or not arrays.exists():
        pytest.skip("the peptide files are not in the folder of GRAMA_DATA")
    smiles, y = _read_csv(csv, is_func=True)
    graphs = _peptides_from_arrays(arrays)
    assert len(smiles) == len(graphs)
    chosen = range(0, len(smiles), 400)
    made = featurise([smiles[k] for k in chosen], y[list(chosen)], str(csv))
    for ours, number in zip(made, chosen, strict=True):
        assert_same(ours, graphs[number], "x", "edge_index", "edge_attr", "y")


def test_positives_of_molhiv(root, real_data):
    task = _load("ogbg-molhiv", root)
    labels = task.graphs.columns["y"].values
    counts = [int(labels[part.numpy()].sum()) for part in task.folds[0].parts]
    assert counts == [1232, 81, 130]


def test_parts_of_zinc(root, real_data):
    task = _load("zinc", root)
    fold = task.folds[0]
    nodes = [int(task.graphs.num_nodes[part.numpy()].sum()) for part in (fold.train, fold.val)]
    assert nodes == [231_664, 23_083]
    assert int(task.graphs.num_edges[fold.test.numpy()].sum()) == 49_720
    assert int(task.graphs.columns["x"].values.max()) == 20


@pytest.mark.parametrize(("name", "expected"), [("chickenpox", 1.1172), ("pedalme", 1.4888)])
def test_zero_predictor(name, expected, root, real_data):
    task = _load(name, root)
    errors = [task.graphs[int(number)].y.square().mean() for number in task.folds[0].test]
    assert float(torch.stack(errors).mean()) == pytest.approx(expected, abs=5e-5)


def test_nodes_of_cora_in_no_part(root, real_data):
    task = _load("cora", root)
    for fold in task.folds:
        assert int((~(fold.train | fold.val | fold.test)).sum()) == 223
    public = _load("cora", root, split="public").folds[0]
    assert [int(part.sum()) for part in public.parts] == [140, 500, 1000]
