import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from published_files import Boom, assert_refused, assert_same, assert_same_masks
from torch_geometric.datasets import Planetoid

from torch_grama.datasets import UnsafePickleError, load
from torch_grama.datasets.catalogue import find

# Known nodes, three test nodes out of order, and one node missing from the index.
KNOWN = 510
TEST_INDEX = [513, 510, 512]
NUM_NODES = 514


def _write(root):
    random = np.random.RandomState(0)
    folder = root / "planetoid/CiteSeer/raw"
    folder.mkdir(parents=True)
    x = sp.csr_matrix((random.rand(KNOWN, 5) > 0.4).astype(np.float32))
    tx = sp.csr_matrix((random.rand(3, 5) > 0.4).astype(np.float32))
    y = np.eye(6)[random.randint(0, 6, size=KNOWN)]
    ty = np.eye(6)[random.randint(0, 6, size=3)]
    graph = defaultdict(list)
    for u, v in [(0, 1), (1, 2), (2, 3), (3, 513), (4, 510), (5, 512), (6, 7), (7, 7), (0, 1)]:
        graph[u].append(v)
        graph[v].append(u)
    items = {"x": x[:2], "y": y[:2], "tx": tx, "ty": ty, "allx": x, "ally": y, "graph": graph}
    for name, item in items.items():
        (folder / f"ind.citeseer.{name}").write_bytes(pickle.dumps(item, protocol=2))
    (folder / "ind.citeseer.test.index").write_text("\n".join(map(str, TEST_INDEX)) + "\n")
    for number in range(10):
        order = np.random.RandomState(number).permutation(NUM_NODES)
        masks = np.zeros((3, NUM_NODES), dtype=bool)
        for part, chosen in enumerate(np.split(order, [300, 400])):
            masks[part, chosen] = True
        named = {f"{part}_mask": masks[k] for k, part in enumerate(("train", "val", "test"))}
        np.savez(folder / f"citeseer_split_0.6_0.2_{number}.npz", **named)
    return folder


def test_reads_what_pyg_reads(tmp_path):
    folder = _write(tmp_path)
    task = load("CiteSeer", tmp_path, normalize=False)
    # PyG's own reader on a copy of the same files.
    other = tmp_path / "pyg" / "CiteSeer" / "geom-gcn" / "raw"
    other.mkdir(parents=True)
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    expected = Planetoid(str(tmp_path / "pyg"), "CiteSeer", split="geom-gcn")[0]
    assert_same(task.graphs[0], expected, "x", "y", "edge_index")
    assert_same_masks(task, expected)


def test_public_split(tmp_path):
    _write(tmp_path)
    task = load("citeseer", tmp_path, split="public")
    (fold,) = task.folds
    sums = task.graphs[0].x.sum(dim=1)  # rows are normalised by default
    assert torch.allclose(sums[sums > 0], torch.ones(1))
    assert sums[511] == 0
    assert fold.train.nonzero().flatten().tolist() == [0, 1]
    assert fold.test.nonzero().flatten().tolist() == [510, 512, 513]


def test_a_hostile_pickle_is_refused(tmp_path, capsys):
    folder = _write(tmp_path)
    (folder / "ind.citeseer.ty").write_bytes(pickle.dumps(Boom()))
    with pytest.raises(UnsafePickleError, match="print"):
        load("citeseer", tmp_path)
    assert "boom" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ind.citeseer.graph", pickle.dumps([1, 2])),
        ("ind.citeseer.graph", pickle.dumps({0: [999], 999: [0]})),
        ("ind.citeseer.test.index", b"eight"),
        ("ind.citeseer.test.index", b"3\n4\n5\n"),
        ("ind.citeseer.test.index", b""),
        ("ind.citeseer.allx", pickle.dumps({"a": 1})),
        ("ind.citeseer.allx", b""),
        ("ind.citeseer.ally", pickle.dumps(np.eye(3))),
        ("citeseer_split_0.6_0.2_3.npz", b"PK"),
    ],
)
def test_damaged_files(tmp_path, name, content):
    folder = _write(tmp_path)
    (folder / name).write_bytes(content)
    assert_refused("citeseer", tmp_path, str(folder))


def test_every_file_is_listed_with_an_address():
    entries = [find(name) for name in ("cora", "citeseer", "pubmed")]
    for entry in entries:
        (source,) = entry.sources
        assert len(source.files) == 18
        assert all(file.urls for file in source.files)
    # No checksums are documented for PubMed, all of them for the other two.
    assert [sum(f.md5 is not None for f in e.sources[0].files) for e in entries] == [18, 18, 0]
