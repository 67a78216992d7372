import os

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from torch_grama.datasets import UnsafePickleError
from torch_grama.datasets.own_data import load_path

RING = torch.tensor([[0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5]])


def ring(**changed):
    data = Data(
        x=torch.arange(12.0).view(6, 2), edge_index=RING, y=torch.tensor([0, 1, 0, 1, 0, 1])
    )
    for name, value in changed.items():
        if value is None:
            del data[name]
        else:
            data[name] = value
    return data


def graphs(count=6, **changed):
    return [ring(**{"y": torch.tensor([number % 2]), **changed}) for number in range(count)]


def save(folder, stored):
    path = folder / "graphs.pt"
    torch.save(stored, path)
    return path


def test_one_graph(tmp_path):
    weights = torch.arange(12.0)
    data = load_path(
        save(tmp_path, ring(edge_weight=weights, edge_attr=weights[:, None] * 2, pos=weights))
    )
    assert (data.level, data.kind, data.num_outputs) == ("node", "classification", 2)
    assert data.edge_encoding.num_columns == 1
    assert any("not read: pos" in note for note in data.notes)
    assert sorted(os.listdir(tmp_path)) == ["graphs.pt", "graphs.pt.splits.json"]


def test_masks(tmp_path):
    part = torch.tensor([0, 0, 1, 1, 2, 3])
    stated = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
    [fold] = load_path(save(tmp_path, ring(**stated))).folds
    assert torch.equal(fold.train, stated["train_mask"])
    several = {name: torch.stack([mask, mask.roll(1)], dim=1) for name, mask in stated.items()}
    folds = load_path(save(tmp_path, ring(**several))).folds
    assert len(folds) == 2
    assert torch.equal(folds[1].val, stated["val_mask"].roll(1))
    assert os.listdir(tmp_path) == ["graphs.pt"]


@pytest.mark.parametrize(
    ("targets", "kind", "shape"),
    [
        ([torch.tensor(float(n)) for n in range(6)], "regression", (1, 1)),
        ([torch.tensor([[n + 0.5, 1.0]]) for n in range(6)], "regression", (1, 2)),
        ([torch.tensor([n + 0.5, 1.0, 2.0]) for n in range(6)], "regression", (1, 3)),
        ([torch.tensor([[n % 2, 1, 0]]) for n in range(6)], "multilabel", (1, 3)),
        ([torch.tensor([[n % 2, 1.0, 0.0]]) for n in range(6)], "multilabel", (1, 3)),
        ([torch.tensor(n % 2) for n in range(6)], "classification", (1,)),
        ([torch.tensor([[n % 2]]) for n in range(6)], "classification", (1,)),
        ([torch.tensor([n % 2]).bool() for n in range(6)], "classification", (1,)),
        ([torch.tensor([0.5], dtype=torch.bfloat16)] * 6, "regression", (1, 1)),
    ],
)
def test_targets_of_graphs(tmp_path, targets, kind, shape):
    data = load_path(save(tmp_path, [ring(y=y) for y in targets]))
    assert (data.level, data.kind) == ("graph", kind)
    for graph, y in zip(data.graphs, targets, strict=True):
        assert graph.y.shape == shape
        assert graph.y.flatten().tolist() == y.flatten().tolist()


def test_graphs_without_label_are_in_no_split(tmp_path):
    stored = graphs(7)
    del stored[3].y
    [fold] = load_path(save(tmp_path, stored), stratify=False).folds
    assert sorted(torch.cat(fold.parts).tolist()) == [0, 1, 2, 4, 5, 6]


def test_many_graphs_with_a_target_a_node(tmp_path, refuses):
    stored = [ring() for _ in range(5)]
    data = load_path(save(tmp_path, stored))
    assert (data.level, data.kind) == ("node", "classification")
    [fold] = data.folds
    assert sorted(torch.cat(fold.parts).tolist()) == list(range(5))
    stored[2].y = torch.tensor([0, 1, -1, 1, 0, 1])
    refuses(save(tmp_path, stored), "graph 2, node 2 has no label")


def test_stated_splits_of_graphs(tmp_path, refuses):
    stored = graphs()
    for graph, word in zip(stored, ["train", "train", "val", "test", "test", ""], strict=True):
        graph.split = word
    [fold] = load_path(save(tmp_path, stored)).folds
    assert (fold.train.tolist(), fold.val.tolist(), fold.test.tolist()) == ([0, 1], [2], [3, 4])
    stored[2].split = "vol"
    refuses(save(tmp_path, stored), "graph 2 has the split 'vol'")
    stored[2].split = 3
    refuses(save(tmp_path, stored), "graph 2 has a 'split' that is no word")
    stored[2].split = "train"
    refuses(save(tmp_path, stored), "leaves 'val' empty")


def test_stated_splits_of_graphs_with_a_target_a_node(tmp_path):
    words = ["test", "train", "train", "val", "val", "train"]
    data = load_path(save(tmp_path, [ring(split=word) for word in words]))
    assert [part.tolist() for part in data.folds[0].parts] == [[1, 2, 5], [3, 4], [0]]
    assert os.listdir(tmp_path) == ["graphs.pt"]


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ([ring(test_mask=torch.ones(6)) for _ in range(6)], "test_mask"),
        (ring(split="val"), "split"),
    ],
)
def test_a_split_of_another_form_is_said_not_to_be_read(tmp_path, stored, name):
    data = load_path(save(tmp_path, stored))
    assert any(f"not read: {name}" in note for note in data.notes)


def test_nodes_without_features(tmp_path, refuses):
    data = load_path(save(tmp_path, ring(x=None, num_nodes=6)))
    assert data.graphs[0].x.tolist() == [[1.0]] * 6
    refuses(save(tmp_path, ring(x=None)), "neither 'x' nor 'num_nodes'")


def broken_ring(name, value):
    data = ring()
    data._store._mapping[name] = value
    return data


MASK = torch.ones(6).bool()

FAULTS = {
    "no edges": (ring(edge_index=None), "no 'edge_index' that is a dense tensor"),
    "dangling": (
        ring(edge_index=torch.tensor([[0, 1], [1, 6]])),
        "column 1 of 'edge_index' names the node 6, but the nodes are 0 to 5",
    ),
    "no nodes": (
        Data(x=torch.zeros(0, 2), edge_index=torch.zeros(2, 0).long(), y=torch.zeros(0)), "0 nodes"
    ),
    "no target": (ring(y=None), "has no 'y'"),
    "target too short": (ring(y=torch.tensor([0, 1])), "no row of 'y' for each of its 6 nodes"),
    "edge features": (ring(edge_attr=torch.zeros(5, 2)), r"'edge_attr' of the shape \(5, 2\)"),
    "edge weights": (ring(edge_weight=torch.zeros(12, 2)), r"'edge_weight' of the shape"),
    "one mask missing": (
        ring(train_mask=MASK, val_mask=MASK),
        "no 'test_mask' that is a dense tensor",
    ),
    "sparse": (ring(x=torch.eye(6).to_sparse()), "no 'x' that is a dense tensor"),
    "a list as features": (broken_ring("x", [1.0] * 6), "no 'x' that is a dense tensor"),
    "an empty list": ([], "an empty list"),
    "no graph": ({"a": torch.zeros(2)}, "holds a dict"),
    "a collated data set": ((ring(), {"x": torch.zeros(2)}), r"save list\(dataset\) instead"),
    "graphs with other features": (
        [*graphs(), ring(y=torch.tensor([1]), x=torch.zeros(6, 3))],
        "graph 6 differs from .* graph 0 in 'x'",
    ),
    "features in some graphs": (
        [*graphs(), ring(y=torch.tensor([1]), x=None, num_nodes=6)],
        "graph 6 differs from .* graph 0 in 'x'",
    ),
    "graphs with other targets": (
        [*graphs(), ring(y=torch.tensor([1.5]))], "graph 6 has 'y' of float64"
    ),
    "graphs of three dimensions": (graphs(y=torch.zeros(1, 1, 1)), "no target of a graph"),
}  # fmt: skip


@pytest.mark.parametrize(("stored", "sentence"), FAULTS.values(), ids=FAULTS)
def test_faults(tmp_path, stored, sentence, refuses):
    refuses(save(tmp_path, stored), sentence)


def test_a_graph_of_unknown_make(tmp_path, refuses):
    data = ring()
    data.__dict__["_store"] = {"x": 1}
    refuses(save(tmp_path, data), "graph of unknown make")


def test_broken_files(tmp_path, refuses):
    path = save(tmp_path, ring())
    whole = path.read_bytes()
    for content in (b"", b"\x80\x02", b"PK\x03\x04", whole[: len(whole) // 2], b"<html></html>"):
        path.write_bytes(content)
        refuses(path, "is not a whole file of torch.save")


class Hostile:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "pwned"),)


def test_hostile_files_are_refused(tmp_path, refuses):
    hostile = Hostile(tmp_path)
    for stored in (hostile, [hostile], broken_ring("x", hostile), [ring(), {"a": hostile}]):
        path = save(tmp_path, stored)
        message = refuses(path, "is refused because it holds")
        assert "posix.mkdir" in message or "nt.mkdir" in message
        with pytest.raises(UnsafePickleError):
            load_path(path)
        assert not (tmp_path / "pwned").exists()
    path = save(tmp_path, HeteroData())
    refuses(path, "HeteroData|is refused")


def test_options(tmp_path, refuses):
    path = save(tmp_path, graphs())
    refuses(path, "no row of 'y' for each of its 6 nodes", level="node")
    path = save(tmp_path, [ring(y=torch.tensor([n % 2] * 6)) for n in range(6)])
    assert load_path(path, level="graph", kind="regression").num_outputs == 6
    assert load_path(path).level == "node"  # the splits of both lie side by side
    refuses(path, "6 labels where one class", kind="classification", level="graph")
    path.with_name("graphs.pt.splits.json").unlink()
    data = load_path(save(tmp_path, ring(x=torch.arange(12).view(6, 2))), categorical=True)
    assert data.node_encoding.sizes == (11, 12)


def test_reading_leaves_the_names_that_pyg_allows(tmp_path):
    torch.serialization.add_safe_globals([Data])
    load_path(save(tmp_path, ring()))
    assert Data in torch.serialization.get_safe_globals()
