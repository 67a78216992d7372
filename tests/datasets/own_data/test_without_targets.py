"""One's own files read for predictions: no label is needed, none is read, nothing is written."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import load_path
from torch_grama.datasets.errors import DatasetError


@pytest.mark.parametrize(
    ("rows", "label"),
    [
        (["id,size", "a,1", "b,2", "c,3"], None),
        (["id,label,size", "a,x,1", "b,unheard of,2", "c,,3"], None),
        (["id,label,y,split,size", "a,x,3,train,1", "b,x,4,,2", "c,,1,nonsense,3"], None),
        (["id,kind,size", "a,x,1", "b,y,2", "c,x,3"], "kind"),
    ],
)
def test_csv(tmp_path, rows, label):
    (folder := tmp_path / "own").mkdir()
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\n")
    data = load_path(folder, targets=False, classes=["x", "z"], label=label)
    assert data.graphs[0].x.tolist() == [[1.0], [2.0], [3.0]]
    assert data.graphs[0].get("y") is None
    assert (len(data.folds), data.class_names, data.num_outputs) == (0, ("x", "z"), 2)
    assert data.node_names == ("a", "b", "c")
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]
    assert "Labels were not read." in data.notes


def test_other_forms(tmp_path):
    lines = [{"x": [[1.0], [2.0]], "edges": [[0, 1]]}, {"x": [[1.0]], "edges": [], "label": "new"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    edges = np.array([[0, 1]])
    np.savez(tmp_path / "b.npz", node_features=np.ones((3, 2)), edges=edges)
    np.savez(tmp_path / "c.npz", node_features=np.ones((3, 2)), edges=edges, node_labels=np.ones(7))
    graph = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    torch.save([graph, graph], tmp_path / "d.pt")
    torch.save(graph, tmp_path / "e.pt")
    levels = {"a.jsonl": "graph", "b.npz": "node", "c.npz": "node", "d.pt": "graph", "e.pt": "node"}
    for name, level in levels.items():
        data = load_path(tmp_path / name, targets=False, kind="classification", classes=["a", "b"])
        assert (len(data.folds), data.level, data.num_outputs) == (0, level, 2)
        with pytest.raises(DatasetError):
            load_path(tmp_path / name)
    assert load_path(tmp_path / "d.pt", targets=False, level="node").level == "node"
