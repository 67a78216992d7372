"""One's own files read for predictions: no label is needed, none is read, nothing is written."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import load_path
from torch_grama.datasets.errors import DatasetError


def write_csv(folder, header, *rows):
    folder.mkdir()
    (folder / "nodes.csv").write_text("\n".join([header, *rows]) + "\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\n")
    return folder


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("id,size", ["a,1", "b,2", "c,3"]),
        ("id,label,size", ["a,x,1", "b,unheard of,2", "c,,3"]),
        ("id,label,y,split,size", ["a,x,3,train,1", "b,x,4,,2", "c,,1,nonsense,3"]),
    ],
)
def test_csv(tmp_path, header, rows):
    folder = write_csv(tmp_path / "own", header, *rows)
    data = load_path(folder, targets=False, classes=["x", "z"])
    assert data.graphs[0].x.tolist() == [[1.0], [2.0], [3.0]]
    assert data.graphs[0].get("y") is None
    assert (len(data.folds), data.class_names, data.num_outputs) == (0, ("x", "z"), 2)
    assert data.node_names == ("a", "b", "c")
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]
    assert "Labels were not read." in data.notes


def test_csv_with_labels_of_another_name(tmp_path):
    folder = write_csv(tmp_path / "own", "id,kind,size", "a,x,1", "b,y,2", "c,x,3")
    data = load_path(folder, targets=False, label="kind")
    assert data.graphs[0].x.size() == (3, 1)


def test_json_lines(tmp_path):
    path = tmp_path / "graphs.jsonl"
    lines = [{"x": [[1.0], [2.0]], "edges": [[0, 1]]}, {"x": [[1.0]], "edges": [], "label": "new"}]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    data = load_path(path, targets=False, kind="classification", classes=["a", "b"])
    assert (len(data.graphs), len(data.folds), data.level) == (2, 0, "graph")


def test_npz(tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, node_features=np.ones((3, 2)), edges=np.array([[0, 1], [1, 2]]))
    assert len(load_path(path, targets=False).folds) == 0
    with pytest.raises(DatasetError, match="has no array 'node_labels'"):
        load_path(path)
    np.savez(path, node_features=np.ones((3, 2)), edges=np.array([[0, 1]]), node_labels=np.ones(7))
    assert len(load_path(path, targets=False).folds) == 0


def test_torch_files(tmp_path):
    path = tmp_path / "graphs.pt"
    graph = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    torch.save([graph, graph], path)
    assert load_path(path, targets=False).level == "graph"
    assert load_path(path, targets=False, level="node").level == "node"
    torch.save(graph, path)
    assert load_path(path, targets=False, kind="regression").kind == "regression"
