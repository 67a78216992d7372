import json

import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets.own_data import write_csv_folder, write_json_lines

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(**changed):
    data = Data(x=torch.tensor([[0.1, 2.0], [3.0, 4.0], [-1e-7, 1e20]]), edge_index=PATH)
    data.y = torch.tensor([0, 1, -1])
    for name, value in changed.items():
        data[name] = value
    return data


def test_tables(tmp_path):
    data = graph(edge_weight=torch.tensor([0.5, 0.5, 1.0, 1.0]), edge_attr=torch.ones(4, 1))
    for number, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = torch.arange(3) == number
    folder = write_csv_folder(
        data,
        tmp_path / "new" / "folder",
        node_names=["a", 'b "b"', "c,c"],
        feature_names=["first", "second"],
        class_names=["no", "yes"],
    )
    assert (folder / "nodes.csv").read_text() == (
        "id,first,second,label,split\n"
        "a,0.1,2.0,no,train\n"
        '"b ""b""",3.0,4.0,yes,val\n'
        '"c,c",-1e-07,1e+20,,test\n'
    )
    assert (folder / "edges.csv").read_text().splitlines()[:3] == [
        "source,target,weight,e0",
        'a,"b ""b""",0.5,1.0',
        '"b ""b""",a,0.5,1.0',
    ]


def test_lines(tmp_path):
    graphs = [graph(y=torch.tensor([1]), split="train"), graph(y=torch.tensor([-1]))]
    path = write_json_lines(graphs, tmp_path / "graphs.jsonl", class_names=["no", "yes"])
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["edges"] == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert (first["label"], first["split"]) == ("yes", "train")
    assert "label" not in second
    bare = Data(num_nodes=2, edge_index=torch.zeros(2, 0).long())
    path = write_json_lines([bare, Data(num_nodes=1)], tmp_path / "bare.jsonl")
    assert path.read_text() == '{"num_nodes":2,"edges":[]}\n{"num_nodes":1,"edges":[]}\n'


def test_nothing_is_overwritten_unasked(tmp_path):
    write_csv_folder(graph(), tmp_path)
    before = (tmp_path / "nodes.csv").read_bytes()
    (tmp_path / "nodes.csv").unlink()
    with pytest.raises(FileExistsError, match=r"edges\.csv"):
        write_csv_folder(graph(), tmp_path)
    assert not (tmp_path / "nodes.csv").exists()
    write_csv_folder(graph(), tmp_path, overwrite=True)
    assert (tmp_path / "nodes.csv").read_bytes() == before
    write_json_lines([graph(y=None)], tmp_path / "a.jsonl")
    with pytest.raises(FileExistsError, match=r"a\.jsonl"):
        write_json_lines([], tmp_path / "a.jsonl")
    write_json_lines([], tmp_path / "a.jsonl", overwrite=True)


def test_what_cannot_be_written(tmp_path):
    bad = graph(x=torch.tensor([[float("nan")]] * 3))
    with pytest.raises(ValueError, match="finite"):
        write_csv_folder(bad, tmp_path / "csv")
    with pytest.raises(ValueError, match="finite"):
        write_json_lines([bad], tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="3 node names"):
        write_csv_folder(graph(), tmp_path / "csv", node_names=["a"])
    with pytest.raises(ValueError, match="2 feature names"):
        write_csv_folder(graph(), tmp_path / "csv", feature_names=["a"])
    assert list(tmp_path.iterdir()) == []
