import struct
import sys

import pytest
import torch
from made_task import made_task
from torch_geometric.data import Data

from torch_grama.datasets import DatasetError, FeatureEncoding, load
from torch_grama.datasets.picture import _colours, _cut, _layout, save_picture


def _size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def _ring(n):
    nodes = torch.arange(n)
    edges = torch.stack([nodes, (nodes + 1) % n])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.rand(n, 2), edge_index=edge_index, y=nodes % 3)


@pytest.mark.parametrize("name", ["transfer-crossed-ring-5", "transfer-line-3-carry"])
def test_draws_a_small_png(name, tmp_path):
    path = save_picture(load(name), tmp_path / "deep" / "picture.png")
    width, height = _size(path)
    assert 300 < width < 900
    assert 300 < height < 900
    assert path.stat().st_size < 200_000


def test_same_picture_twice(tmp_path):
    task = load("transfer-ring-5")
    first, second = (save_picture(task, tmp_path / f"{k}.png").read_bytes() for k in range(2))
    assert first == second
    other = save_picture(task, tmp_path / "other.png", index=3).read_bytes()
    assert other != first


def _many_categories():
    return Data(x=torch.arange(30).view(-1, 1), edge_index=_ring(30).edge_index)


@pytest.mark.parametrize(
    ("graph", "changes"),
    [
        (_ring(12), {"num_outputs": 3}),
        (_ring(12), {"kind": "regression"}),
        (_ring(12), {"level": "graph"}),
        (_ring(12), {"level": "graph", "node_encoding": FeatureEncoding("ogb_atom", 2)}),
        (_ring(12), {"level": "graph", "node_encoding": FeatureEncoding("categorical", 2, (3, 3))}),
        (_ring(12), {"num_outputs": 3, "class_names": ("a", "b", "c")}),
        # many categories share a scale
        (_many_categories(), {"level": "graph", "node_encoding": FeatureEncoding("ogb_atom", 1)}),
        (
            _many_categories(),
            {"level": "graph", "node_encoding": FeatureEncoding("categorical", 1)},
        ),
        (Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0).long(), y=torch.tensor([0])), {}),
        (
            Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0], [1]]), y=torch.zeros(4).long()),
            {},
        ),
        (Data(num_nodes=3), {}),
    ],
)
def test_every_kind_of_colour_and_odd_graphs(graph, changes, tmp_path):
    _size(save_picture(made_task(graph, **changes), tmp_path / "picture.png"))


def test_nodes_without_label_are_no_class():
    graph = _ring(3)
    graph.y[2] = -1
    names = _colours(made_task(graph, class_names=("cat",)), graph)[2]
    assert names == {-1: "no label", 0: "cat", 1: "class 1"}


def test_large_graphs_are_cut_to_a_neighbourhood():
    part, note = _cut(_ring(5000))
    assert 150 < part.num_nodes <= 200
    assert part.num_edges == 2 * (part.num_nodes - 1)
    assert "around node" in note
    whole, note = _cut(_ring(50))
    assert whole.num_nodes == 50
    assert note == ""
    star = torch.stack([torch.zeros(900).long(), torch.arange(1, 901)])
    part, _ = _cut(Data(edge_index=star, num_nodes=901))
    assert 1 < part.num_nodes <= 200


def test_a_ring_is_drawn_as_a_ring():
    place = _layout(_ring(20))
    radius = ((place - place.mean(axis=0)) ** 2).sum(axis=1) ** 0.5
    assert radius.max() / radius.min() < 1.1


def test_wrong_number(tmp_path):
    with pytest.raises(DatasetError, match="from 0 to 1199"):
        save_picture(load("transfer-ring-5"), tmp_path / "picture.png", index=1200)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["matplotlib.figure", "networkx"])
def test_without_what_it_takes(module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DatasetError, match=r"torch-grama\[data\]"):
        save_picture(load("transfer-ring-5"), tmp_path / "picture.png")
