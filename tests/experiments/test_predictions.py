"""Predictions on other data: features matched by name, labels not needed, all kinds of tables."""

import csv
import dataclasses
import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from sample_data import write_graph_file, write_node_folder
from torch_geometric.data import Data

from torch_grama.cli import main
from torch_grama.datasets import (
    DatasetError,
    FeatureEncoding,
    Fold,
    GraphTaskData,
    Metric,
    from_frames,
)
from torch_grama.experiments import RunError, export_run, make_config, predict_run, run_experiment
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


def test_an_unfinished_run_says_so(run, tmp_path, capsys):
    folder = shutil.copytree(run / "run", tmp_path / "run")
    assert main(["evaluate", str(folder)]) == 0  # a warning would be an error here
    (folder / "result.json").unlink()
    for words in (["evaluate"], ["predict", "--out", str(tmp_path / "p.csv")]):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            assert main([*words, str(folder)]) == 0
        assert "is unfinished: its best weights so far" in capsys.readouterr().err


def test_outputs_that_are_no_numbers_are_not_written(run, tmp_path, monkeypatch):
    lost = lambda task, loader, device: torch.tensor([[0.0, 1.0]] * 9 + [[0.0, torch.nan]])  # noqa: E731
    monkeypatch.setattr("torch_grama.experiments.predictions.predict", lost)
    with pytest.raises(RunError, match=r"no numbers for 1 of 10 rows \(the first is 9\)"):
        predict_run(run / "run", out=tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


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
    with pytest.raises(DatasetError, match=r"names no column 'height', .* was trained on it"):
        predict_run(run / "run", other)
    graphs = write_graph_file(tmp_path / "graphs.jsonl")
    with pytest.raises(ValueError, match="level 'graph'"):
        predict_run(run / "run", graphs)
    weighted = write_node_folder(tmp_path / "weighted", weights=True)
    with pytest.raises(RunError, match="with edge weights False"):
        predict_run(run / "run", weighted)
    with pytest.raises(RunError, match="with node features float in 3 columns"):
        predict_run(run / "run", "transfer-line-3")


def test_a_forecast_of_files_is_refused(tmp_path):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.rand(2, 4, 1), edge_index=edge_index, y=torch.rand(2, 1))] * 4
    encodings = FeatureEncoding("float", 1), FeatureEncoding("none", 0)
    fold, metric = Fold(*torch.arange(4).split([2, 1, 1])), Metric("mse", False)
    data = GraphTaskData("weeks", graphs, [fold], "node", "forecast", metric, 1, *encodings)
    config = make_config({"data": "weeks", "model": "gcn", **TINY}, data=data)
    run_experiment(config, tmp_path / "run", report="quiet", data=data)
    files = write_graph_file(tmp_path / "graphs.jsonl")
    with pytest.raises(RunError, match="Expected the name of a data set of series for the run"):
        predict_run(tmp_path / "run", files)


def test_words_that_training_never_saw(run, tmp_path, capsys):
    other = write_node_folder(tmp_path / "other", num_nodes=20, labels=False)
    rows = [line.split(",") for line in (other / "nodes.csv").read_text().splitlines()]
    words = ["colour"] + ["green"] * 7 + ["red"] * 13
    rows = [[*row[:-1], word] for row, word in zip(rows, words, strict=True)]
    (other / "nodes.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    with pytest.warns(UserWarning, match=r"7 cells hold words .* never saw: 'colour' \('green' 7"):
        table = predict_run(run / "run", other)
    assert len(table.rows) == 20
    command = ["predict", str(run / "run"), "--data", str(other), "--out", str(tmp_path / "p.csv")]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert said.startswith("grama: warning: '")
    assert said.count("\n") == 1
    assert main([*command, "-o", "unseen=refuse"]) == 2
    assert "with `-o unseen=zeros`" in capsys.readouterr().err


def test_labels_and_splits_beside_predictions(run, tmp_path):
    table = predict_run(run / "run", out=tmp_path / "p.csv", with_labels=True)
    assert table.columns[:4] == ("node", "label", "split", "prediction")
    with (tmp_path / "p.csv").open() as file:
        found = {row["node"]: row for row in csv.DictReader(file)}
    with (run / "data" / "nodes.csv").open() as file:
        assert all(found[row["id"]]["label"] == row["label"] for row in csv.DictReader(file))
    splits = [row["split"] for row in found.values()]
    assert {part: splits.count(part) for part in ("train", "val", "test")} == {
        "train": 36, "val": 12, "test": 12,
    }  # fmt: skip
    other = write_node_folder(tmp_path / "other", num_nodes=10)
    rows = predict_run(run / "run", other, with_labels=True).rows
    assert {row[2] for row in rows} == {None}
    assert {row[1] for row in rows} == {"left", "right"}
    assert not (other / "splits.json").exists()
    bare = write_node_folder(tmp_path / "bare", num_nodes=10, labels=False)
    with pytest.raises(DatasetError, match="names no column 'label'"):
        predict_run(run / "run", bare, with_labels=True)


@pytest.fixture(scope="module")
def messy(tmp_path_factory) -> Path:
    """A run on tables with gaps, dates and words, of which the training part has no 'rare'."""
    folder = tmp_path_factory.mktemp("messy")
    write_messy(folder / "data")
    settings = {"data": str(folder / "data"), "model": "gcn", **TINY}
    run_experiment(make_config(settings), folder / "run", report="json")
    return folder


def write_messy(folder, order=1):
    folder.mkdir()
    rows = []
    for n in range(30):
        age = "" if n % 5 == 0 else str(n)
        rows.append([f"n{n}", age, f"{n % 28 + 1:02}.03.2020", ("x", "y", "")[n % 3], "ab"[n % 2],
                     ("train", "val", "test")[n // 10]])  # fmt: skip
    names = ["ID", "age", "joined", "job", "Label", "split"]
    table = [names, *rows]
    lines = [";".join([row[0], *row[1:][::order]]) for row in table]
    (folder / "nodes.csv").write_text("\n".join(lines))
    (folder / "edges.csv").write_text(
        "from;to;len;weight\n" + "\n".join(f"n{n};n{n + 1};{n or ''};{n or ''}" for n in range(29))
    )


def test_the_means_and_words_of_training_are_used_everywhere(messy, tmp_path):
    own = predict_run(messy / "run")
    exported = tmp_path / "exported"
    export_run(messy / "run", out=exported)
    write_messy(tmp_path / "same", order=-1)  # the same table, its columns in another order
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert predict_run(messy / "run", tmp_path / "same") == own
        assert predict_run(exported, tmp_path / "same") == own
    facts = DataFacts.load(messy / "run" / "data.json")
    assert facts.form is not None
    assert facts.form.nodes[0].fill == pytest.approx(sum((1, 2, 3, 4, 6, 7, 8, 9)) / 8)
    # one node alone: nothing of the new table can serve as a mean
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / "nodes.csv").write_text("id,age,joined,job\nq,,,x\n")
    (lone / "edges.csv").write_text("from,to,len,weight\nq,q,,\n")
    assert all(value == value for value in predict_run(messy / "run", lone).rows[0])
    (lone / "edges.csv").write_text("from,to,len,weight\n")  # and without an edge
    assert all(value == value for value in predict_run(messy / "run", lone).rows[0])


def test_files_that_were_changed_since_are_read_as_training_read_them(tmp_path):
    data, changed = tmp_path / "data", tmp_path / "changed"
    write_messy(data)
    config = make_config({"data": str(data), "model": "gcn", **TINY})
    run_experiment(config, tmp_path / "run", report="json")
    before = predict_run(tmp_path / "run", with_labels=True)
    text = (data / "nodes.csv").read_text()
    (data / "nodes.csv").write_text(text.replace(";x;", ";z;"))
    shutil.copytree(data, changed)
    with pytest.warns(UserWarning, match=r"never saw: 'job' \('z' 10\)"):
        now = predict_run(tmp_path / "run", with_labels=True)
    with pytest.warns(UserWarning, match="never saw"):
        assert now == predict_run(tmp_path / "run", changed, with_labels=True)
    assert [row[:3] for row in now.rows] == [row[:3] for row in before.rows]
    (data / "nodes.csv").write_text(text.replace(";a;", ";c;"))
    with pytest.raises(DatasetError, match="the label 'c', which is outside the classes 'a', 'b'"):
        predict_run(tmp_path / "run", with_labels=True)


def test_frames_are_predicted(messy):
    pandas = pytest.importorskip("pandas")
    nodes = pandas.read_csv(messy / "data" / "nodes.csv", sep=";")
    edges = pandas.read_csv(messy / "data" / "edges.csv", sep=";")
    facts = DataFacts.load(messy / "run" / "data.json")
    data = from_frames(nodes, edges, form=facts.form, targets=False)
    assert predict_run(messy / "run", data) == predict_run(messy / "run")


def test_several_labels_keep_the_names_of_their_columns(tmp_path):
    folder = write_node_folder(tmp_path / "data", num_nodes=12, labels=False)
    lines = (folder / "nodes.csv").read_text().splitlines()
    flags = ["sick,old", *(f"{n % 2},{'' if n == 5 else n // 6}" for n in range(12))]
    (folder / "nodes.csv").write_text(
        "\n".join(f"{line},{more}" for line, more in zip(lines, flags, strict=True))
    )
    settings = {
        "data": {"name": str(folder), "options": {"label": ["sick", "old"]}},
        "model": "gcn",
    }
    run_experiment(make_config(settings | TINY), tmp_path / "run", report="json")
    table = predict_run(tmp_path / "run", with_labels=True)
    assert table.columns == ("node", "label sick", "label old", "split", "prediction",
                             "probability sick", "probability old")  # fmt: skip
    assert table.rows[5][1:3] == (1.0, None)  # one of the two is not known


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
    with pytest.raises(ConfigError, match=r"pip install 'torch-grama\[tables\]'"):
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

    facts, data = facts_of("regression", "node", 1)
    data.graphs[0].y, data.graphs[1].y = (
        torch.tensor([[1.0], [float("nan")]]),
        torch.tensor([[3.0]]),
    )
    parts = torch.tensor([1]), torch.tensor([0]), torch.tensor([], dtype=torch.long)
    data = dataclasses.replace(data, folds=[Fold(*parts)])
    checked = make_table(torch.tensor([[1.5], [2.5], [3.5]]), facts, data, 0)
    assert checked.columns == ("graph", "node", "label", "split", "prediction")
    assert list(checked.rows) == [
        (0, 0, 1.0, "val", 1.5),
        (0, 1, None, "val", 2.5),
        (1, 0, 3.0, "train", 3.5),
    ]

    two = make_table(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), *facts_of("regression", "graph", 2))
    assert two.columns == ("graph", "prediction 0", "prediction 1")
    assert two.rows[1] == (1, 3.0, 4.0)

    one_logit = make_table(
        torch.tensor([[3.0], [-3.0]]), *facts_of("classification", "graph", 1, ("sick",))
    )
    assert [row[1] for row in one_logit.rows] == ["sick", ""]
