import numpy as np
import pytest
from published_files import assert_refused, assert_same, assert_same_masks, place
from torch_geometric.datasets import HeterophilousGraphDataset

from torch_grama.datasets import load

FILE = "heterophilous/minesweeper/raw/minesweeper.npz"


def _arrays(num_nodes=12):
    random = np.random.RandomState(0)
    masks = np.zeros((3, 10, num_nodes), dtype=bool)
    for fold in range(10):
        order = random.permutation(num_nodes)
        for part, chosen in enumerate(np.split(order, [6, 9])):
            masks[part, fold, chosen] = True
    return {
        "node_features": random.rand(num_nodes, 7).astype(np.float32),
        "node_labels": np.arange(num_nodes) % 2,
        "edges": np.array([[k, k + 1] for k in range(num_nodes - 1)]),
        "train_masks": masks[0],
        "val_masks": masks[1],
        "test_masks": masks[2],
    }


def _write(root, **changes):
    arrays = {**_arrays(), **changes}
    path = place(root, FILE)
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def test_reads_what_pyg_reads(tmp_path):
    path = _write(tmp_path)
    task = load("Minesweeper", tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]
    expected = HeterophilousGraphDataset(str(tmp_path / "heterophilous"), "Minesweeper")[0]
    (graph,) = task.graphs
    assert set(graph.keys()) == {"x", "edge_index", "y"}
    assert_same(graph, expected, "x", "edge_index", "y")
    assert graph.num_edges == 22
    assert_same_masks(task, expected)
    assert (task.class_names, task.metric.name) == (("free", "mine"), "roc_auc")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_labels": None}, "node_labels"),
        ({"node_labels": np.full(12, 2)}, "labels from 2 to 2"),
        ({"node_labels": np.zeros(11, int)}, "npz file of the heterophilous"),
        ({"node_features": np.full((12, 7), np.nan, np.float32)}, "not finite"),
        ({"val_masks": _arrays()["train_masks"]}, "disjoint"),
        ({"train_masks": _arrays()["train_masks"][:, :5]}, "masks"),
        ({"edges": np.array([1, 2, 3])}, "npz file"),
        ({"edges": np.array([[0, 12]])}, "an edge to node 12 of 12"),
    ],
)
def test_wrong_content(tmp_path, changes, message):
    path = _write(tmp_path, **changes)
    assert str(path) in assert_refused("minesweeper", tmp_path, message)


@pytest.mark.parametrize("length", [0, 10, 500])
def test_truncated_file(tmp_path, length):
    path = _write(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert_refused("minesweeper", tmp_path, "fetch it again")
