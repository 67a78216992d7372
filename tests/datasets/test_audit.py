"""An audit finds what was put into a data set, and nothing in a clean one."""

import json
from dataclasses import replace

import torch
from made_task import made_task
from torch_geometric.data import Data

from torch_grama.cli import main
from torch_grama.datasets import load
from torch_grama.datasets.audit import audit, compare_labels
from torch_grama.datasets.range_tasks import generate_barbell
from torch_grama.datasets.splits import consecutive_fold, index_fold


def _graphs(count=30):
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for number in range(count):
        edges = torch.randint(0, 8, (2, 20), generator=generator)
        x = torch.randn(8, 3, generator=generator)
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([number % 2])))
    return graphs


def _task(graphs, **changes):
    folds = [consecutive_fold((20, 5, 5))]
    return made_task(*graphs, **{"level": "graph", "folds": folds, **changes})


def _verdicts(task):
    worst = {}
    for finding in audit(task):
        order = ("ok", "note", "fault")
        worst[finding.check] = max(worst.get(finding.check, "ok"), finding.verdict, key=order.index)
    return worst


def test_a_clean_set_has_no_fault():
    assert set(_verdicts(_task(_graphs())).values()) == {"ok"}


def test_parts_that_overlap_or_are_empty():
    folds = [index_fold(*(torch.tensor(p).numpy() for p in ([0, 1, 2], [3], [2, 4])))]
    assert _verdicts(_task(_graphs(), folds=folds))["splits"] == "fault"
    assert _verdicts(_task(_graphs(), folds=[consecutive_fold((25, 0, 5))]))["splits"] == "fault"


def test_a_graph_with_its_nodes_in_another_order_is_a_twin():
    graphs = _graphs()
    order = torch.randperm(8)
    twin = Data(
        x=graphs[3].x[order], edge_index=order.argsort()[graphs[3].edge_index], y=graphs[3].y
    )
    graphs[27] = twin
    found = [finding for finding in audit(_task(graphs)) if finding.check == "twins"]
    assert [finding.verdict for finding in found] == ["fault", "note"]
    assert "1 of 5 test graphs" in found[0].text
    graphs[27] = Data(x=twin.x.flip(0), edge_index=twin.edge_index, y=twin.y)
    found = [finding for finding in audit(_task(graphs)) if finding.check == "twins"]
    assert [finding.verdict for finding in found] == ["ok", "note"]  # the edges alone


def test_a_column_that_gives_the_class_away():
    graphs = _graphs()
    for graph in graphs:
        graph.x[:, 1] = graph.y.float()
    found = next(finding for finding in audit(_task(graphs)) if finding.check == "leaks")
    assert found.verdict == "fault"
    assert "column 1" in found.text
    named = _task(graphs, feature_names=("age", "answer", "size"))
    assert any(finding.text.startswith("answer alone") for finding in audit(named))


def test_a_class_that_is_missing():
    graphs = _graphs()
    for graph in graphs[:20]:
        graph.y[:] = 0
    assert _verdicts(_task(graphs))["balance"] == "fault"


def test_items_without_a_class_are_missing_labels():
    graphs = _graphs(32)
    for graph in graphs[30:]:
        graph.y[:] = -1
    found = next(finding for finding in audit(_task(graphs)) if finding.check == "labels")
    assert (found.verdict, found.text.rpartition("; ")[2]) == ("note", "6.2% are missing")


def test_labels_are_computed_anew():
    task = load("barbell-10")
    assert _verdicts(task)["labels"] == "ok"
    wrong = generate_barbell(10)
    wrong.columns["y"].values[:20] += 1
    assert _verdicts(replace(task, graphs=wrong))["labels"] == "fault"
    for name in ("range-shell-line-3", "range-power-line-2-copy"):
        assert compare_labels(load(name)) == (1.0, "the sum over nodes at the stated distance")


def test_the_command_prints_a_screen_and_says_by_its_code_what_it_found(tmp_path, capsys):
    assert main(["data", "audit", "barbell-10", "--root", str(tmp_path)]) == 0
    assert "no overlap (50 train, 50 val, 50 test)" in capsys.readouterr().out
    graphs = _graphs()
    graphs[27] = graphs[3].clone()
    words = ["train"] * 20 + ["val"] * 5 + ["test"] * 5
    for graph, word in zip(graphs, words, strict=True):
        graph.split = word
    torch.save(graphs, tmp_path / "m.pt")
    assert main(["data", "audit", str(tmp_path / "m.pt"), "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [item["verdict"] for item in findings if item["check"] == "twins"] == ["fault", "note"]
    assert main(["data", "audit", "barbell-10", "--fold", "3"]) == 2
    assert "Expected a fold below 1" in capsys.readouterr().err


def test_the_mislabelled_columns_are_reported(monkeypatch):
    sizes = ((25, 12), (26, 6), (27, 6))
    monkeypatch.setattr("torch_grama.datasets.graph_property.SIZES", sizes)
    monkeypatch.setattr("torch_grama.datasets.graph_property.COUNTS", (12, 6, 6))
    for name in ("property-sssp", "property-eccentricity"):
        assert _verdicts(load(name))["labels"] == "fault"
        assert _verdicts(load(name, labels="true"))["labels"] == "ok"
    assert _verdicts(load("property-diameter"))["labels"] == "ok"
