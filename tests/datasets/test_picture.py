import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import DatasetError, load
from torch_grama.datasets.picture import _cut, _layout, save_picture
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric

pytestmark = pytest.mark.usefixtures("own_folders")


def _size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def _task(graph: Data, **changes: object) -> GraphTaskData:
    part = torch.zeros(graph.num_nodes, dtype=torch.bool)
    task = GraphTaskData(
        name="made/up",
        graphs=[graph],
        folds=[Fold(part, part, part)],
        level="node",
        kind="classification",
        metric=Metric("accuracy", True),
        num_outputs=3,
        node_encoding=FeatureEncoding("float", 2),
    )
    return replace(task, **changes)


def _ring(n: int) -> Data:
    nodes = torch.arange(n)
    edges = torch.stack([nodes, (nodes + 1) % n])
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.rand(n, 2), edge_index=edge_index, y=nodes % 3)


@pytest.mark.parametrize("name", ["transfer-crossed-ring-5", "transfer-line-3-carry"])
def test_draws_a_small_png(name: str, tmp_path: Path) -> None:
    path = save_picture(load(name), tmp_path / "deep" / "picture.png")
    width, height = _size(path)
    assert 300 < width < 900
    assert 300 < height < 900
    assert path.stat().st_size < 200_000


def test_same_picture_twice(tmp_path: Path) -> None:
    task = load("transfer-ring-5")
    first, second = (save_picture(task, tmp_path / f"{k}.png").read_bytes() for k in range(2))
    assert first == second
    other = save_picture(task, tmp_path / "other.png", index=3).read_bytes()
    assert other != first


@pytest.mark.parametrize(
    "changes",
    [
        {"num_outputs": 3},
        {"kind": "regression"},
        {"level": "graph"},
        {"level": "graph", "node_encoding": FeatureEncoding("ogb_atom", 2)},
        {"level": "graph", "node_encoding": FeatureEncoding("categorical", 2, (3, 3))},
        {"class_names": ("a", "b", "c")},
    ],
)
def test_every_kind_of_colour(changes: dict[str, object], tmp_path: Path) -> None:
    _size(save_picture(_task(_ring(12), **changes), tmp_path / "picture.png"))


@pytest.mark.parametrize(
    "graph",
    [
        Data(
            x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([0])
        ),
        Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0], [1]]), y=torch.zeros(4).long()),
        Data(num_nodes=3),
    ],
)
def test_odd_graphs(graph: Data, tmp_path: Path) -> None:
    _size(save_picture(_task(graph), tmp_path / "picture.png"))


def test_large_graphs_are_cut_to_a_neighbourhood() -> None:
    part, note = _cut(_ring(5000))
    assert 150 < part.num_nodes <= 200
    assert part.num_edges == 2 * (part.num_nodes - 1)
    assert "around node" in note
    whole, note = _cut(_ring(50))
    assert whole.num_nodes == 50
    assert note == ""
    star = torch.stack([torch.zeros(900).long(), torch.arange(1, 901)])
    hub = Data(edge_index=star, num_nodes=901)
    part, _ = _cut(hub)
    assert 1 < part.num_nodes <= 200


def test_a_ring_is_drawn_as_a_ring() -> None:
    place = _layout(_ring(20))
    radius = ((place - place.mean(axis=0)) ** 2).sum(axis=1) ** 0.5
    assert radius.max() / radius.min() < 1.1


def test_wrong_number(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="from 0 to 1199"):
        save_picture(load("transfer-ring-5"), tmp_path / "picture.png", index=1200)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["categorical", "ogb_atom"])
def test_many_categories_share_a_scale(kind: str, tmp_path: Path) -> None:
    graph = _ring(30)
    graph.x = torch.arange(30).view(-1, 1)
    task = _task(graph, level="graph", node_encoding=FeatureEncoding(kind, 1))
    _size(save_picture(task, tmp_path / "picture.png"))


@pytest.mark.parametrize("module", ["matplotlib.figure", "networkx"])
def test_without_what_it_takes(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DatasetError, match=r"torch-grama\[data\]"):
        save_picture(load("transfer-ring-5"), tmp_path / "picture.png")
