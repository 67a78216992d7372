import csv
import gzip
import importlib.util
import io
import pickle
import socket
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from published_files import assert_refused, assert_same, place, saved, write_zip

from torch_grama.datasets import DatasetError, DatasetMissingError, load
from torch_grama.datasets import storage as storage_module
from torch_grama.datasets.molecules import FUNCTIONS, STRUCTURES, featurise

SMILES = ["CC(C)C[C@H](N)C(=O)O", "N[C@@H](CO)C(=O)NCC(=O)O", "C", "NCC(=O)O"]
HAS_RDKIT = importlib.util.find_spec("rdkit") is not None
needs_rdkit = pytest.mark.skipif(not HAS_RDKIT, reason="needs rdkit and ogb")

# Glycine by hand: N, C, C, O, O with bonds N-C, C-C, C=O, C-O.
GLYCINE_ATOMS = [
    [6, 0, 3, 5, 2, 0, 2, 0, 0],
    [5, 0, 4, 5, 2, 0, 2, 0, 0],
    [5, 0, 3, 5, 0, 0, 1, 0, 0],
    [7, 0, 1, 5, 0, 0, 1, 0, 0],
    [7, 0, 2, 5, 1, 0, 1, 0, 0],
]
GLYCINE_BONDS = [[0, 1], [1, 2], [2, 3], [2, 4]]
GLYCINE_BOND_ATTR = [[0, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1]]


def _labels(count):
    return np.random.RandomState(0).randint(0, 2, size=(count, 10))


FUNC_SPLIT = "peptides-functional/splits_random_stratified_peptide.pickle"


def _write_split(root, name=FUNC_SPLIT):
    parts = {"train": np.array([3, 0]), "val": np.array([1]), "test": np.array([2])}
    place(root, name).write_bytes(pickle.dumps(parts))


def _write_csv(path, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode()))


def _write_func_csv(root, smiles=SMILES):
    path = place(root, "peptides-functional/raw/peptide_multi_class_dataset.csv.gz")
    rows = [
        {"smiles": text, "peptide_seq": "X", "labels": labels.tolist(), "identifier": number}
        for number, (text, labels) in enumerate(zip(smiles, _labels(4), strict=True))
    ]
    _write_csv(path, rows)
    _write_split(root)
    return path


def _write_graphs(root, count=4, **changes):
    """Four times glycine as compact arrays."""
    arrays = {
        "x": np.tile(np.array(GLYCINE_ATOMS, np.uint8), (count, 1)),
        "num_nodes": np.full(count, 5, np.uint16),
        "bonds": np.tile(np.array(GLYCINE_BONDS, np.uint16).T, count),
        "bond_attr": np.tile(np.array(GLYCINE_BOND_ATTR, np.uint8), (count, 1)),
        "num_bonds": np.full(count, 4, np.uint16),
        "y": _labels(count).astype(np.uint8),
        **changes,
    }
    path = place(root, "peptides-functional/peptides_func_graphs.npz")
    np.savez_compressed(path, **arrays)
    _write_split(root)
    return path


def _structures(count=4):
    return np.random.RandomState(1).normal(5.0, 3.0, size=(count, 11))


def _write_struct_csv(root, smiles=SMILES):
    path = place(root, "peptides-structural/raw/peptide_structure_dataset.csv.gz")
    rows = [
        {"smiles": text, **dict(zip(STRUCTURES, values, strict=True))}
        for text, values in zip(smiles, _structures().tolist(), strict=True)
    ]
    _write_csv(path, rows)


@pytest.fixture
def _no_rdkit(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        storage_module.importlib.util,
        "find_spec",
        lambda name: None if name in ("rdkit", "ogb") else real(name),
    )


@pytest.mark.usefixtures("_no_rdkit")
def test_compact_arrays_need_no_rdkit(tmp_path):
    _write_graphs(tmp_path)
    task = load("Peptides-func", tmp_path)
    assert len(task.graphs) == 4
    graph = task.graphs[2]
    assert graph.x.tolist() == GLYCINE_ATOMS
    assert graph.x.dtype == graph.edge_attr.dtype == torch.long
    # A bond gives both directions one after the other, with the same features.
    assert graph.edge_index.t()[:4].tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.edge_attr[4].tolist() == graph.edge_attr[5].tolist() == [1, 0, 1]
    assert graph.y.shape == (1, 10)
    assert torch.equal(graph.y, torch.from_numpy(_labels(4)[2:3]).float())
    assert [part.tolist() for part in task.folds[0].parts] == [[3, 0], [1], [2]]
    assert (task.kind, task.metric.name) == ("multilabel", "average_precision")
    assert task.parameter_budget == 500_000
    assert task.class_names == FUNCTIONS
    assert task.node_encoding.kind == "ogb_atom"
    assert sum(task.node_encoding.sizes) == 174
    assert sum(task.edge_encoding.sizes) == 13


@needs_rdkit
def test_smiles_are_featurised_as_by_ogb(tmp_path):
    _write_func_csv(tmp_path)
    task = load("peptides-func", tmp_path)
    glycine = task.graphs[3]
    assert glycine.x.tolist() == GLYCINE_ATOMS
    assert glycine.edge_index[:, ::2].t().tolist() == GLYCINE_BONDS
    assert glycine.edge_attr[::2].tolist() == GLYCINE_BOND_ATTR
    methane = task.graphs[2]
    assert (methane.num_nodes, methane.num_edges) == (1, 0)
    assert methane.edge_attr.shape == (0, 3)
    assert torch.equal(task.graphs[1].y, torch.from_numpy(_labels(4)[1:2]).float())


@needs_rdkit
def test_ogb_does_not_ask_the_network(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: asked.append(a) or [])
    for name in [name for name in sys.modules if name.split(".")[0] == "ogb"]:
        monkeypatch.delitem(sys.modules, name)
    _write_func_csv(tmp_path)
    load("peptides-func", tmp_path)
    assert asked == []


@needs_rdkit
def test_a_wrong_smiles_names_its_row(tmp_path):
    _write_func_csv(tmp_path, ["C", "CC", "C(C", "CCC"])
    assert_refused("peptides-func", tmp_path, "row 2")


@pytest.mark.usefixtures("_no_rdkit")
def test_smiles_without_rdkit_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMA_OFFLINE", "1")
    _write_func_csv(tmp_path)
    with pytest.raises(DatasetMissingError, match=r"peptidesfunc\.zip") as caught:
        load("peptides-func", tmp_path)
    assert "takes rdkit and ogb" in str(caught.value)
    assert "torch-grama[molecules]" in str(caught.value)


def _molecules(targets):
    edges = torch.tensor(GLYCINE_BONDS)
    both = torch.stack([edges, edges.flip(1)], dim=1).reshape(-1, 2).t().contiguous()
    attr = torch.tensor(GLYCINE_BOND_ATTR).repeat_interleave(2, dim=0)
    return [
        (torch.tensor(GLYCINE_ATOMS), attr, both, torch.full((1, targets), float(number)))
        for number in range(9)
    ]


def _write_archive(path, *contents):
    parts = zip(("train", "val", "test"), contents, strict=True)
    write_zip(path, {f"{path.stem}/{part}.pt": saved(content) for part, content in parts})


@pytest.mark.parametrize(
    ("name", "file", "targets"),
    [
        ("peptides-func", "peptides-functional/raw/peptidesfunc.zip", 10),
        ("peptides-struct", "peptides-structural/raw/peptidesstruct.zip", 11),
    ],
)
def test_archive_for_pyg(tmp_path, name, file, targets):
    graphs = _molecules(targets)
    _write_archive(tmp_path / file, graphs[:3], graphs[3:6], graphs[6:])
    task = load(name, tmp_path)
    assert task.folds[0].test.tolist() == [6, 7, 8]
    for stored, graph in zip(graphs, task.graphs, strict=True):
        names = ("x", "edge_attr", "edge_index", "y")
        assert_same(graph, dict(zip(names, stored, strict=True)), *names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graphs: {"a": 1}, "a dict in train.pt"),
        (lambda graphs: [(x, a, e.flip(0), y) for x, a, e, y in graphs[:1]] + graphs[1:], ""),
        (lambda graphs: [(x, a, e.sort().values, y) for x, a, e, y in graphs], "follow"),
        (lambda graphs: [(x, a.roll(1, 0), e, y) for x, a, e, y in graphs], "differ"),
    ],
)
def test_archive_with_other_content(tmp_path, change, message):
    path = tmp_path / "peptides-functional/raw/peptidesfunc.zip"
    _write_archive(path, *[change(_molecules(10))] * 3)
    if message:
        assert_refused("peptides-func", tmp_path, message)
    else:  # the second direction may come first: it is the same bond
        load("peptides-func", tmp_path)


@pytest.mark.parametrize("labels", ["[0, 1]", "nothing", "[0, 1, 0, 1, 0, 1, 0, 1, 0, NaN]"])
@needs_rdkit
def test_wrong_labels(tmp_path, labels):
    path = _write_func_csv(tmp_path)
    _write_csv(path, [{"smiles": "C", "labels": labels}])
    assert_refused("peptides-func", tmp_path, path.name)


def test_smiles_take_ogb(monkeypatch):
    known = ModuleType("outdated")
    monkeypatch.setitem(sys.modules, "outdated", known)
    monkeypatch.setitem(sys.modules, "ogb.utils.mol", None)
    with pytest.raises(DatasetError, match=r"torch-grama\[molecules\]"):
        featurise(["C"], np.zeros((1, 1)), "here")
    assert sys.modules["outdated"] is known


@pytest.mark.usefixtures("_no_rdkit")
def test_structures_on_the_graphs_of_func(tmp_path):
    _write_func_csv(tmp_path)
    _write_graphs(tmp_path)
    _write_struct_csv(tmp_path)
    task = load("peptides-struct", tmp_path)
    assert (task.kind, task.metric.name, task.num_outputs) == ("regression", "mae", 11)
    targets = torch.cat([graph.y for graph in task.graphs]).numpy()
    raw = _structures()
    assert np.allclose(targets, (raw - raw.mean(0)) / raw.std(0, ddof=1), atol=1e-5)
    assert task.graphs[0].x.tolist() == GLYCINE_ATOMS
    assert any("z-scored" in note for note in task.notes)


@pytest.mark.usefixtures("_no_rdkit")
@pytest.mark.parametrize(
    ("count", "smiles", "message"),
    [(4, SMILES[::-1], "same molecules in the same"), (3, SMILES, r"4 rows .* \(got: 3 graphs\)")],
)
def test_structures_of_other_molecules_are_not_mixed(tmp_path, count, smiles, message):
    _write_func_csv(tmp_path)
    _write_graphs(tmp_path, count)
    _write_struct_csv(tmp_path, smiles)
    assert_refused("peptides-struct", tmp_path, message)


@needs_rdkit
def test_structures_from_smiles(tmp_path):
    _write_struct_csv(tmp_path)
    name = "peptides-structural/splits_random_stratified_peptide_structure.pickle"
    _write_split(tmp_path, name)
    task = load("peptides-struct", tmp_path)
    assert task.graphs[3].x.tolist() == GLYCINE_ATOMS
    targets = torch.cat([graph.y for graph in task.graphs])
    assert torch.allclose(targets.mean(0), torch.zeros(11), atol=1e-5)
    assert torch.allclose(targets.std(0), torch.ones(11), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.full((20, 9), 200, np.uint8)}, "atom features"),
        ({"x": np.zeros((20, 8), np.uint8)}, "9 atom features"),
        ({"bond_attr": np.full((16, 3), 7, np.uint8)}, "bond features"),
        ({"bonds": np.full((2, 16), 9, np.uint16)}, "fit together"),
        ({"num_nodes": np.full(4, 6, np.uint16)}, "fit together"),
        ({"y": np.zeros((4, 9), np.uint8)}, "10 labels"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, changes, message):
    path = _write_graphs(tmp_path, **changes)
    assert str(path) in assert_refused("peptides-func", tmp_path, message)
    assert not (tmp_path / "compact").exists()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": [0, 1], "val": [1], "test": [2]}, "disjoint"),
        ({"train": [0, 9], "val": [1], "test": [2]}, "graphs 0 to 3"),
        ({"train": [0]}, "splits_random"),
        ([1, 2], "splits_random"),
    ],
)
def test_split_that_does_not_fit(tmp_path, parts, message):
    _write_graphs(tmp_path)
    (tmp_path / FUNC_SPLIT).write_bytes(pickle.dumps(parts))
    assert_refused("peptides-func", tmp_path, message)
