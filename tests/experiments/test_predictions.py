"""Predictions on other data: features matched by name, labels not needed, all kinds of tables."""

import csv
import json
from pathlib import Path

import pytest
import torch
from sample_data import write_graph_file, write_node_folder
from torch_geometric.data import Data

from torch_grama.datasets import FeatureEncoding, GraphTaskData, Metric
from torch_grama.experiments import RunError, make_config, predict_run, run_experiment
from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.predictions import Predictions, make_table

TINY = {
    "trainer.max_epochs": 2,
    "model.hidden_channels": 8,
    "trainer.accelerator": "cpu",
    "data.options.directed": False,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("predicted")
    data = write_node_folder(folder / "data")
    config = make_config({"data": str(data), **TINY})
    run_experiment(config, folder / "run", report="json")
    return folder


def test_other_data_without_labels(run, tmp_path):
    other = write_node_folder(tmp_path / "other", num_nodes=30, seed=3, labels=False)
    table = predict_run(run / "run", other, tmp_path / "p.csv")
    assert table.columns == ("node", "prediction", "probability left", "probability right")
    assert [row[0] for row in table.rows] == [f"n{number}" for number in range(30)]
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == [row[1] for row in table.rows]
    assert not (other / "splits.json").exists()


def test_columns_in_another_order_and_missing_words_make_no_difference(run, tmp_path):
    other = write_node_folder(tmp_path / "other", num_nodes=20, seed=4)
    expected = predict_run(run / "run", other)
    lines = [line.split(",") for line in (other / "nodes.csv").read_text().splitlines()]
    swapped = [[name, colour, height, "unheard of" if name != "id" else label]
               for name, label, height, colour in lines]  # fmt: skip
    (other / "nodes.csv").write_text("\n".join(",".join(row) for row in swapped) + "\n")
    assert predict_run(run / "run", other) == expected
    # only one of the words occurs: the column of the other is 0
    red = [[name, height, "red" if name != "id" else colour] for name, _, height, colour in lines]
    (other / "nodes.csv").write_text("\n".join(",".join(row) for row in red) + "\n")
    assert len(predict_run(run / "run", other).rows) == 20


def test_data_that_does_not_fit_is_named(run, tmp_path):
    other = write_node_folder(tmp_path / "other")
    text = (other / "nodes.csv").read_text()
    (other / "nodes.csv").write_text(text.replace("height", "depth"))
    with pytest.raises(RunError, match=r"Expected the features .* without 'height'"):
        predict_run(run / "run", other)
    (other / "nodes.csv").write_text(text.replace("red", "green"))
    with pytest.raises(RunError, match="with 'colour=green' besides"):
        predict_run(run / "run", other)
    graphs = write_graph_file(tmp_path / "graphs.jsonl")
    with pytest.raises(ValueError, match="level 'graph'"):
        predict_run(run / "run", graphs)
    weighted = write_node_folder(tmp_path / "weighted", weights=True)
    with pytest.raises(RunError, match="with edge weights False"):
        predict_run(run / "run", weighted)
    with pytest.raises(RunError, match="with node features float in 3 columns"):
        predict_run(run / "run", "transfer-line-3")


def test_the_form_follows_the_ending(tmp_path):
    table = Predictions(("node", "prediction"), [("a", 0.5), ("b", 1.5)])
    table.save(tmp_path / "p.jsonl")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"node": "a", "prediction": 0.5},
        {"node": "b", "prediction": 1.5},
    ]
    table.save(tmp_path / "new" / "p.json")
    assert json.loads((tmp_path / "new" / "p.json").read_text())[1]["node"] == "b"
    with pytest.raises(ConfigError, match=r"ends in .csv, .json, .jsonl or .parquet \(got 'p.xls'"):
        table.save(Path("p.xls"))


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    Predictions(("node", "prediction"), [("a", 0.5)]).save(tmp_path / "p.parquet")
    frame = pandas.read_parquet(tmp_path / "p.parquet")
    assert frame.to_dict("records") == [{"node": "a", "prediction": 0.5}]


def test_parquet_without_its_libraries_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas pyarrow"):
        Predictions(("node",), []).save("p.parquet")


def facts_of(kind, level, outputs, names=()):
    encoding = FeatureEncoding("float", 1)
    facts = DataFacts(level, kind, Metric("x", True), outputs, encoding, encoding, 2,
                      class_names=names)  # fmt: skip
    graphs = [Data(x=torch.zeros(2, 1)), Data(x=torch.zeros(1, 1))]
    data = GraphTaskData("d", graphs, [], level, kind, facts.metric, outputs, encoding)
    return facts, data


def test_flags_quantities_and_many_graphs():
    flags = make_table(
        torch.tensor([[4.0, -4.0], [2.0, 2.0]]), *facts_of("multilabel", "graph", 2, ("a", "b"))
    )
    assert flags.columns == ("graph", "prediction", "probability a", "probability b")
    assert [row[1] for row in flags.rows] == ["a", "a;b"]
    assert flags.rows[0][2] == pytest.approx(torch.tensor(4.0).sigmoid().item(), abs=1e-6)

    nodes = make_table(torch.tensor([[1.5], [2.5], [3.5]]), *facts_of("regression", "node", 1))
    assert nodes.columns == ("graph", "node", "prediction")
    assert list(nodes.rows) == [(0, 0, 1.5), (0, 1, 2.5), (1, 0, 3.5)]

    two = make_table(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), *facts_of("regression", "graph", 2))
    assert two.columns == ("graph", "prediction 0", "prediction 1")
    assert two.rows[1] == (1, 3.0, 4.0)

    one_logit = make_table(
        torch.tensor([[3.0], [-3.0]]), *facts_of("classification", "graph", 1, ("sick",))
    )
    assert [row[1] for row in one_logit.rows] == ["sick", ""]
