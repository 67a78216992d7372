import pytest
import torch
from made_task import made_task
from torch_geometric.data import Data

from torch_grama.datasets import FeatureEncoding, Fold, Metric
from torch_grama.datasets.own_data import describe, load_path

NODES = "id,age,always,colour,label\n" + "".join(
    f"n{n},{n},7,{'red' if n % 2 else 'blue'},{'ab'[n % 2]}\n" for n in range(8)
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    rows = [f"n{n},n{n + 1},0.5" for n in range(6)] + ["n0,n0,1", "n0,n1,1"]
    (tmp_path / "edges.csv").write_text("source,target,weight\n" + "\n".join(rows))
    return tmp_path


def unwrapped(data):
    return " ".join(describe(data).split())


def test_one_screen(folder):
    data = load_path(folder)
    lines = describe(data).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines[1:])) <= 100
    for part in (
        "task node classification, judged by accuracy (higher is better)",
        "graphs 1 graph of 8 nodes",
        # 6 edges and a loop, of which n0-n1 is listed twice, in both directions
        "edges 7 undirected (15 entries of edge_index); 0 to 3 neighbours per node, 1.8 on average",
        "node features 4 columns (float): age, always, colour=blue, colour=red",
        "edge features a weight",
        "target 2 classes: a (4), b (4)",
        "splits 4 / 2 / 2 (train / validation / test)",
        "Words became features of 0 and 1: 'colour' (2 words); `-o ignore=[colour]` leaves",
        "taken as undirected: the reverse of 7 of them was added",
        "1 edge leads from a node to itself",
        "2 edges repeat another one",
        "1 node has no neighbours",
        "1 feature has the same value everywhere: always",
    ):
        assert part in unwrapped(data)
    assert "directed, and no message" not in unwrapped(data)


def test_directed_and_unlabelled(folder):
    (folder / "nodes.csv").write_text(NODES.replace("n7,7,7,red,b", "n7,7,7,red,"))
    text = unwrapped(load_path(folder, directed=True))
    assert "edges 8 directed" in text
    assert "6 edges lead one way only" in text
    assert "1 item has no label, of 8." in text


def test_weights_below_zero_and_labels_that_are_all_the_same(folder):
    (folder / "nodes.csv").write_text(NODES.replace(",b\n", ",a\n"))
    edges = folder / "edges.csv"
    assert "All labels are the same: there is nothing to learn." in unwrapped(load_path(folder))
    edges.write_text(edges.read_text().replace("n1,n2,0.5", "n1,n2,-0.5"))
    assert "2 edges have a weight below 0: sums of weights" in unwrapped(load_path(folder))


def test_a_class_that_is_missing_from_a_part(folder):
    words = ["split", "train", "val", "train", "val", "test", "test", "test", "test"]
    rows = zip(NODES.splitlines(), words, strict=True)
    (folder / "nodes.csv").write_text("\n".join(map(",".join, rows)))
    text = unwrapped(load_path(folder))
    assert "'train' of the first split has no item of class b" in text
    assert "'val' of the first split has no item of class a" in text
    assert "'test' of the first split" not in text


def test_nothing_to_warn_about(tmp_path):
    graphs = [
        Data(
            x=torch.arange(6.0).view(3, 2) + n,
            edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]),
            y=torch.tensor([n + 0.5]),
        )
        for n in range(5)
    ]
    torch.save(graphs, tmp_path / "graphs.pt")
    text = unwrapped(load_path(tmp_path / "graphs.pt"))
    for part in (
        "task graph regression, judged by mae (lower is better)",
        "5 graphs of 3 to 3 nodes (3.0 on average, 15 in all)",
        "15 undirected (30 entries of edge_index); 2 to 2 neighbours",
        "target 1 quantity, 0.5 to 4.5, mean 2.5",
        "splits 3 / 1 / 1",
        "warnings none",
    ):
        assert part in text


def test_flags_categories_and_a_graph_without_edges():
    graph = Data(x=torch.tensor([[0, 1]]), edge_index=torch.zeros(2, 0).long())
    graphs = [graph.clone(), graph.clone()]
    graphs[0].edge_weight = torch.zeros(0)
    graphs[0].y, graphs[1].y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    flags = {"level": "graph", "kind": "multilabel", "metric": Metric("average_precision", True)}
    flags["node_encoding"] = FeatureEncoding("ogb_atom", 2, (3, 4))
    flags["edge_encoding"] = FeatureEncoding("categorical", 1, (9,))
    text = unwrapped(made_task(*graphs, **flags))
    for part in (
        "task multi-label, 2 labels per graph, judged by average_precision (higher is better)",
        "edges none",
        "2 columns (ogb atom) of 3, 4 values",
        "1 column (categorical) of 9 values; and a weight",
        "2 labels: 0 (100.0%), 1 (50.0%)",
        "splits none",
        "2 nodes have no neighbours",
    ):
        assert part in text


def test_a_forecast_and_long_lists():
    graphs = [
        Data(x=torch.rand(3, 4, 1), edge_index=torch.tensor([[0], [0]]), y=torch.rand(3, 1))
        for _ in range(4)
    ]
    parts = torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3])
    facts = {"kind": "forecast", "feature_names": tuple(f"column {n}" for n in range(20))}
    text = unwrapped(made_task(*graphs, **facts, folds=[Fold(*parts), Fold(*parts[::-1])]))
    assert "column 7, and 12 more" in text
    assert "2 splits, the first of 2 / 1 / 1" in text


def test_graphs_without_features_or_edges_at_all():
    text = describe(made_task(Data(num_nodes=3), kind="regression"))
    assert "1 graph of 3 nodes" in text
    assert "2 quantities" in text
