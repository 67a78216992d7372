import pytest
import torch
from published_files import assert_refused, assert_same, place, write_tar, write_zip
from torch_geometric.datasets import MalNetTiny
from torch_geometric.transforms import LocalDegreeProfile

from torch_grama.datasets import load

HEADER = "# Directed graph\n# a\n# b\n# c\n# FromNodeId ToNodeId\n"
# Types appear in this order, which is not that of their numbers.
GRAPHS = {
    "trojan/x/aa": [(0, 1), (1, 2), (2, 2)],
    "benign/x/bb": [(0, 3), (3, 1)],
    "adware/y/cc": [(1, 0)],
    "downloader/y/dd": [(0, 1)],
    "addisplay/z/ee": [(5, 0), (0, 5)],
}
SPLIT = {
    "train": ["trojan/x/aa", "benign/x/bb", "adware/y/cc"],
    "val": ["downloader/y/dd"],
    "test": ["addisplay/z/ee"],
}


def _text(pairs):
    return HEADER + "".join(f"{u} {v}\n" for u, v in pairs)


TEXTS = {name: _text(pairs) for name, pairs in GRAPHS.items()}


def _lists(**changes):
    names = {**SPLIT, **changes}
    return {f"split_info_tiny/type/{part}.txt": "\n".join(names[part]) + "\n" for part in names}


def _write_archives(root, texts=TEXTS, split=None):
    folder = root / "malnet-tiny/raw"
    graphs = {f"malnet-graphs-tiny/{name}.edgelist": texts[name].encode() for name in texts}
    write_tar(folder / "malnet-graphs-tiny.tar.gz", graphs)
    others = {f"split_info_tiny/family/{part}.txt": "nobody\n" for part in SPLIT}
    write_zip(folder / "split_info_tiny.zip", {**(split or _lists()), **others})
    return folder


def _write_folders(root):
    graphs = {f"malnet-graphs-tiny/{name}.edgelist": text for name, text in TEXTS.items()}
    for name, text in {**graphs, **_lists()}.items():
        place(root / "malnet-tiny/raw", name).write_text(text)


@pytest.mark.parametrize("write", [_write_archives, _write_folders])
def test_reads_and_profiles(tmp_path, write):
    write(tmp_path)
    task = load("malnet-tiny", tmp_path)
    assert [graph.y.tolist() for graph in task.graphs] == [[4], [2], [1], [3], [0]]
    assert task.class_names[4] == "trojan"
    assert task.graphs[0].edge_index.t().tolist() == [[0, 1], [1, 2], [2, 2]]
    assert task.graphs[1].num_nodes == 4
    assert [part.tolist() for part in task.folds[0].parts] == [[0, 1, 2], [3], [4]]
    assert task.node_encoding.kind == "float"
    assert task.node_encoding.num_columns == 5
    for graph in task.graphs:
        plain = graph.clone()
        del plain.x
        plain.num_nodes = graph.num_nodes
        assert torch.equal(graph.x, LocalDegreeProfile()(plain).x)


def test_graphs_equal_those_of_pyg(tmp_path):
    _write_folders(tmp_path)
    task = load("malnet-tiny", tmp_path)
    theirs = MalNetTiny(str(tmp_path / "malnet-tiny"))
    for graph, expected in zip(task.graphs, theirs, strict=True):
        assert_same(graph, expected, "edge_index")
        assert graph.num_nodes == expected.num_nodes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "no edges"),
        ("0 1\n", "no edges"),
        (HEADER + "0 x\n", r"bb\.edgelist"),
        (HEADER + "0 1 2\n", "3 columns"),
        (HEADER + "0 -1\n", "numbers -1"),
    ],
)
def test_wrong_edge_lists(tmp_path, text, message):
    _write_archives(tmp_path, {**TEXTS, "benign/x/bb": text})
    assert_refused("malnet-tiny", tmp_path, message)


def test_missing_graphs_and_unknown_types(tmp_path):
    _write_archives(tmp_path, {"trojan/x/aa": _text([(0, 1)])})
    assert_refused("malnet-tiny", tmp_path, r"5 graphs named .* \(got: 1 graphs\)")
    for name, message in (("virus/x/ff", "virus"), ("trojan/x/aa", "disjoint")):
        _write_archives(tmp_path, {**TEXTS, "virus/x/ff": _text([(0, 1)])}, _lists(val=[name]))
        assert_refused("malnet-tiny", tmp_path, message)


def test_damaged_archives(tmp_path):
    folder = _write_archives(tmp_path)
    for name in ("malnet-graphs-tiny.tar.gz", "split_info_tiny.zip"):
        whole = (folder / name).read_bytes()
        for length in (0, 20, len(whole) - 30):
            (folder / name).write_bytes(whole[:length])
            assert_refused("malnet-tiny", tmp_path, str(folder))
        (folder / name).write_bytes(whole)
