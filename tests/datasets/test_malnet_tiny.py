import io
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import MalNetTiny
from torch_geometric.transforms import LocalDegreeProfile

from torch_grama.datasets.catalogue import find
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.storage import Storage

pytestmark = pytest.mark.usefixtures("own_folders")

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


def _text(pairs: list[tuple[int, int]]) -> str:
    return HEADER + "".join(f"{u} {v}\n" for u, v in pairs)


def _write_archives(root: Path, graphs: dict[str, str] | None = None) -> Path:
    folder = root / "malnet-tiny/raw"
    folder.mkdir(parents=True, exist_ok=True)
    texts = graphs or {name: _text(pairs) for name, pairs in GRAPHS.items()}
    with tarfile.open(folder / "malnet-graphs-tiny.tar.gz", "w:gz") as archive:
        for name, text in texts.items():
            info = tarfile.TarInfo(f"malnet-graphs-tiny/{name}.edgelist")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    with zipfile.ZipFile(folder / "split_info_tiny.zip", "w") as archive:
        for part, names in SPLIT.items():
            archive.writestr(f"split_info_tiny/type/{part}.txt", "\n".join(names) + "\n")
            archive.writestr(f"split_info_tiny/family/{part}.txt", "nobody\n")
    return folder


def _write_folders(root: Path) -> Path:
    folder = root / "malnet-tiny/raw"
    for name, pairs in GRAPHS.items():
        path = folder / "malnet-graphs-tiny" / f"{name}.edgelist"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(pairs))
    (folder / "split_info_tiny/type").mkdir(parents=True)
    for part, names in SPLIT.items():
        (folder / f"split_info_tiny/type/{part}.txt").write_text("\n".join(names) + "\n")
    return folder


@pytest.mark.parametrize("write", [_write_archives, _write_folders])
def test_reads_and_profiles(tmp_path: Path, write) -> None:
    write(tmp_path)
    task = find("malnet-tiny").load(Storage(tmp_path))
    assert [graph.y.tolist() for graph in task.graphs] == [[4], [2], [1], [3], [0]]
    assert task.class_names[4] == "trojan"
    assert task.graphs[0].edge_index.t().tolist() == [[0, 1], [1, 2], [2, 2]]
    assert task.graphs[1].num_nodes == 4
    fold = task.folds[0]
    assert [p.tolist() for p in fold.parts] == [[0, 1, 2], [3], [4]]
    assert task.node_encoding.kind == "float"
    assert task.node_encoding.num_columns == 5
    for graph in task.graphs:
        plain = graph.clone()
        del plain.x
        plain.num_nodes = graph.num_nodes
        assert torch.equal(graph.x, LocalDegreeProfile()(plain).x)


def test_graphs_equal_those_of_pyg(tmp_path: Path) -> None:
    _write_folders(tmp_path)
    task = find("malnet-tiny").load(Storage(tmp_path))
    theirs = MalNetTiny(str(tmp_path / "malnet-tiny"))
    for graph, expected in zip(task.graphs, theirs, strict=True):
        assert torch.equal(graph.edge_index, expected.edge_index)
        assert graph.num_nodes == expected.num_nodes


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("benign/x/bb", HEADER, "no edges"),
        ("benign/x/bb", "0 1\n", "no edges"),
        ("benign/x/bb", HEADER + "0 x\n", r"bb\.edgelist"),
        ("benign/x/bb", HEADER + "0 1 2\n", "3 columns"),
        ("benign/x/bb", HEADER + "0 -1\n", "numbers -1"),
    ],
)
def test_wrong_edge_lists(tmp_path: Path, name: str, text: str, message: str) -> None:
    texts = {key: _text(pairs) for key, pairs in GRAPHS.items()} | {name: text}
    _write_archives(tmp_path, texts)
    with pytest.raises(DatasetError, match=message):
        find("malnet-tiny").load(Storage(tmp_path))


def test_missing_graphs_and_unknown_types(tmp_path: Path) -> None:
    folder = _write_archives(tmp_path, {"trojan/x/aa": _text([(0, 1)])})
    with pytest.raises(DatasetError, match=r"5 graphs named .* \(got: 1 graphs\)"):
        find("malnet-tiny").load(Storage(tmp_path))
    texts = {key: _text(pairs) for key, pairs in GRAPHS.items()}
    _write_archives(tmp_path, texts | {"virus/x/ff": _text([(0, 1)])})
    for name, message in (("virus/x/ff", "virus"), ("trojan/x/aa", "disjoint")):
        with zipfile.ZipFile(folder / "split_info_tiny.zip", "w") as archive:
            for part, names in (SPLIT | {"val": [name]}).items():
                archive.writestr(f"split_info_tiny/type/{part}.txt", "\n".join(names) + "\n")
        with pytest.raises(DatasetError, match=message):
            find("malnet-tiny").load(Storage(tmp_path))


def test_damaged_archives(tmp_path: Path) -> None:
    folder = _write_archives(tmp_path)
    for name in ("malnet-graphs-tiny.tar.gz", "split_info_tiny.zip"):
        whole = (folder / name).read_bytes()
        for length in (0, 20, len(whole) - 30):
            (folder / name).write_bytes(whole[:length])
            with pytest.raises(DatasetError, match=str(folder)):
                find("malnet-tiny").load(Storage(tmp_path))
        (folder / name).write_bytes(whole)
