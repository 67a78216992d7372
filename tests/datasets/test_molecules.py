import gzip

import pytest
import torch
from published_files import assert_refused, place, write_zip

from torch_grama.datasets import load

# Two molecules: three atoms in a row, and a lone atom.
TABLES = {
    "raw/node-feat.csv.gz": ["5,0,4,5,3,0,2,0,0"] * 3 + ["7,0,2,5,2,0,2,0,0"],
    "raw/edge.csv.gz": ["0,1", "1,2"],
    "raw/edge-feat.csv.gz": ["0,0,0", "1,0,1"],
    "raw/num-node-list.csv.gz": ["3", "1"],
    "raw/num-edge-list.csv.gz": ["2", "0"],
    "raw/graph-label.csv.gz": ["0", "1"],
    "split/scaffold/train.csv.gz": ["1"],
    "split/scaffold/valid.csv.gz": ["0"],
    "split/scaffold/test.csv.gz": [],
}


def _bytes(lines):
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


def _write(root, **changes):
    for name, lines in {**TABLES, **changes}.items():
        place(root / "ogbg_molhiv", name).write_bytes(_bytes(lines))
    return root / "ogbg_molhiv"


def _check(root):
    task = load("ogbg-molhiv", root)
    assert (task.level, task.kind, task.metric.name) == ("graph", "classification", "roc_auc")
    chain, lone = task.graphs
    assert chain.edge_index.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert chain.edge_attr.tolist() == [[0, 0, 0]] * 2 + [[1, 0, 1]] * 2
    assert chain.y.tolist() == [0]
    assert chain.y.dtype == torch.long
    assert (lone.num_nodes, lone.num_edges, lone.y.item()) == (1, 0, 1)
    assert [part.tolist() for part in task.folds[0].parts] == [[1], [0], []]


def test_tables(tmp_path):
    _write(tmp_path)
    _check(tmp_path)


def test_archive(tmp_path):
    members = {f"hiv/{name}": _bytes(lines) for name, lines in TABLES.items()}
    path = write_zip(tmp_path / "ogbg_molhiv" / "hiv.zip", members)
    _check(tmp_path)
    (tmp_path / "compact" / "ogbg-molhiv-v1.npz").unlink()
    path.write_bytes(path.read_bytes()[:-30])
    assert_refused("ogbg-molhiv", tmp_path, r"hiv\.zip")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"raw/edge.csv.gz": ["0,1", "1,3"]}, "own graph"),
        ({"raw/edge.csv.gz": ["0,1"]}, "fit together"),
        ({"raw/edge.csv.gz": ["0,1", "1,a"]}, r"edge\.csv\.gz"),
        ({"raw/edge.csv.gz": ["0,1", "1"]}, r"edge\.csv\.gz"),
        ({"raw/node-feat.csv.gz": ["5,0,4"] * 4}, "3 columns"),
        ({"raw/node-feat.csv.gz": ["5,0,4,5,3,0,2,0,9"] * 4}, "atom features"),
        ({"raw/graph-label.csv.gz": ["0", "2"]}, "0 or 1"),
        ({"raw/graph-label.csv.gz": ["0"]}, "fit together"),
        ({"split/scaffold/test.csv.gz": ["1"]}, "disjoint"),
        ({"split/scaffold/test.csv.gz": ["7"]}, "graphs 0 to 1"),
    ],
)
def test_wrong_tables(tmp_path, changes, message):
    _write(tmp_path, **changes)
    assert_refused("molhiv", tmp_path, message)
    assert not (tmp_path / "compact").exists()


def test_a_table_that_is_no_gzip(tmp_path):
    folder = _write(tmp_path)
    for content in (b"", b"0,1\n", _bytes(["0,1", "1,2"])[:-6]):
        (folder / "raw/edge.csv.gz").write_bytes(content)
        assert_refused("molhiv", tmp_path, r"edge\.csv\.gz")
