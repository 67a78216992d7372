import os

import numpy as np
import pytest
import torch

from torch_grama.datasets.own_data import load_path


def arrays(**changed):
    """A ring of six nodes, with two splits."""
    parts = np.array([[0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, -1]])
    table = {
        "node_features": np.arange(12.0).reshape(6, 2),
        "node_labels": np.array([0, 1, 0, 1, 0, 1]),
        "edges": np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]]),
        "train_masks": parts == 0,
        "val_masks": parts == 1,
        "test_masks": parts == 2,
    }
    table.update(changed)
    return {name: value for name, value in table.items() if value is not None}


def save(folder, **changed):
    path = folder / "graph.npz"
    np.savez(path, **arrays(**changed))
    return path


NO_MASKS = {"train_masks": None, "val_masks": None, "test_masks": None}


def test_edges_and_splits_are_read(tmp_path):
    data = load_path(save(tmp_path))
    assert data.graphs[0].edge_index.tolist() == [
        [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0],
        [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5],
    ]
    first, second = data.folds
    assert first.train.tolist() == [True, True, False, False, False, False]
    assert second.val.tolist() == [False, False, False, False, True, False]
    assert [path.name for path in tmp_path.iterdir()] == ["graph.npz"]
    names = [name for name in arrays() if name.endswith("masks")]
    vectors = {name: np.array(arrays()[name])[0].astype(np.uint8) for name in names}
    [fold] = load_path(save(tmp_path, **vectors)).folds
    assert fold.test.tolist() == [False] * 4 + [True] * 2


def test_a_missing_split_is_made_beside_the_file(tmp_path):
    path = save(tmp_path, **NO_MASKS)
    first = load_path(path, seed=4)
    assert sorted(os.listdir(tmp_path)) == ["graph.npz", "graph.npz.splits.json"]
    again = load_path(path, seed=4)
    assert torch.equal(first.folds[0].train, again.folds[0].train)


def test_labels_that_are_missing_or_quantities(tmp_path):
    path = save(tmp_path, node_labels=np.array([0, 1, 0, 1, 0, -1]), **NO_MASKS)
    data = load_path(path, stratify=False)
    assert data.graphs[0].y.tolist() == [0, 1, 0, 1, 0, -1]
    assert not any(bool(part[5]) for part in data.folds[0].parts)
    path = save(tmp_path, node_labels=np.array([0.5, 1.5, 2.5, 3.5, 4.5, np.nan]), **NO_MASKS)
    data = load_path(path, seed=1)
    assert (data.kind, data.graphs[0].y.shape) == ("regression", (6, 1))
    path = save(tmp_path, node_labels=np.arange(12).reshape(6, 2) % 2)
    assert load_path(path).kind == "multilabel"
    path = save(tmp_path, node_labels=np.arange(12).reshape(6, 2))
    assert (load_path(path).kind, load_path(path).num_outputs) == ("regression", 2)


def mask(*rows):
    return np.array(rows, dtype=bool)


FAULTS = {
    "no features": ({"node_features": None}, "no array 'node_features', only 'node_labels'"),
    "no labels": ({"node_labels": None}, "no array 'node_labels'"),
    "no edges": ({"edges": None}, "no array 'edges'"),
    "one mask missing": ({"val_masks": None}, "no array 'val_masks' beside the other masks"),
    "no nodes": ({"node_features": np.zeros((0, 2)), "node_labels": np.zeros(0, int)}, "no nodes"),
    "NaN": ({"node_features": np.array([[0.0, np.nan]] * 6)}, "node 0 has the value nan in feat"),
    "infinite": ({"node_features": np.array([[0.0, 1e99]] * 6)}, "node 0 has the value 1e"),
    "text features": ({"node_features": np.array([["a"]] * 6)}, "no rows of numbers"),
    "labels too short": ({"node_labels": np.array([0, 1])}, r"6 rows .* labels of the shape"),
    "label below": ({"node_labels": np.array([0, 1, 0, 1, 0, -2])}, "node 5 has the label -2"),
    "label above": (
        {"node_labels": np.array([0, 1, 0, 1, 0, 99])},
        "node 5 has the label 99, which is outside the classes 0 to 12",
    ),
    "text labels": ({"node_labels": np.array(list("ababab"))}, "no number or vector of numbers"),
    "no label": ({"node_labels": np.full(6, -1), **NO_MASKS}, "have no label"),
    "an infinite label": (
        {"node_labels": np.array([[0.5, np.inf]] * 6)}, "node 0 has a label that is infinite"
    ),
    "dangling": ({"edges": np.array([[0, 1], [2, 6]])}, "row 1 of 'edges' names the node 6, but"),
    "negative end": ({"edges": np.array([[0, -1]])}, "row 0 of 'edges' names the node -1"),
    "edges of floats": ({"edges": np.zeros((5, 2))}, "float64"),
    "overlap": (
        {"val_masks": mask([1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0])},
        "node 0 is in 'train' and 'val' of split 0",
    ),
    "empty part": ({"test_masks": np.zeros((2, 6), bool)}, "Split 0 of .* leaves 'test' empty"),
    "masks of another size": ({"test_masks": np.zeros((2, 5), bool)}, r"masks of the shapes"),
    "masks of another kind": ({"test_masks": np.full((2, 6), 7)}, "not true or false"),
    "part without label": (
        {"node_labels": np.array([-1, 1, 0, 1, 0, 1])}, "node 0 is in 'train' but has no label"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "sentence"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path, changed, sentence, refuses):
    refuses(save(tmp_path, **changed), sentence)


def test_broken_files(tmp_path, refuses):
    path = save(tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"PK\x03\x04", whole[: len(whole) // 2], whole[:-30], b"<html>"):
        path.write_bytes(content)
        refuses(path, "not a whole npz file")
    np.save(tmp_path / "one.npy", np.zeros(3))
    path.write_bytes((tmp_path / "one.npy").read_bytes())
    refuses(path, "holds one array")


def test_pickled_objects_are_not_read(tmp_path, refuses):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "pwned"),)

    objects = np.array([Hostile()] * 6, dtype=object)
    refuses(save(tmp_path, node_labels=objects), "not a whole npz file of plain arrays")
    assert not (tmp_path / "pwned").exists()


def test_options(tmp_path, refuses):
    path = save(tmp_path)
    refuses(path, "ask for level 'node'", level="graph")
    refuses(path, "node 1 has the label 1, which is outside the classes 0 to 0", classes=["only"])
    assert load_path(path, classes=["no", "yes", "maybe"]).num_outputs == 3
    assert load_path(path, metric="roc_auc").metric.name == "roc_auc"
    data = load_path(path, categorical=True)
    assert data.node_encoding.sizes == (11, 12)
    assert load_path(path, kind="regression").graphs[0].y.dtype == torch.float32
