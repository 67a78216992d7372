"""The analysis of a run: its file, what it is made from, and what it refuses."""

import json

import pytest
from sample_data import small_config, write_graph_file, write_node_folder

from torch_grama.analysis import AnalysisSettings, read_analysis
from torch_grama.cli import main
from torch_grama.experiments import evaluate_run, run_experiment
from torch_grama.experiments.analyze_run import analyze_run
from torch_grama.runs.run_folder import RunError

SETTINGS = AnalysisSettings(max_graphs=3, max_influence_graphs=2, num_samples=2, example_nodes=6)


def train(data, folder, model="grama", **options):
    run_experiment(small_config(data, model, 2, **options), folder, report="quiet")
    return folder


@pytest.fixture(scope="module")
def node_runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("node")
    data = write_node_folder(place / "data", num_nodes=30)
    grama = train(data, place / "first", seq_len=2, num_blocks=1)
    return grama, train(data, place / "second", "gcn")


def test_a_node_task_is_analysed_with_another_run_beside_it(node_runs):
    grama, other = node_runs
    said = []
    found = analyze_run(grama, compare=[other], settings=SETTINGS, report=said.append)
    assert list(found.influence) == ["model", "before training", "gcn"]
    assert len(found.blocks) == 1
    assert "predictions" in said
    assert "influence of gcn" in said
    assert found.example.names == [f"n{node}" for node in found.example.nodes]  # as in the file
    assert read_analysis(grama / "analysis.json") == found


@pytest.mark.parametrize("split", ["val", "test"])
def test_accuracy_is_that_of_the_evaluation(node_runs, split):
    found = analyze_run(node_runs[0], split=split, settings=SETTINGS)
    assert found.errors is not None
    assert found.errors.classes is not None
    measured = evaluate_run(node_runs[0], split)["accuracy"]
    assert found.errors.classes.accuracy == pytest.approx(measured, abs=1e-4)
    # every judged node has a distance from the nodes that were trained on
    assert found.errors.by_distance is not None
    judged = sum(found.errors.by_distance.num_nodes) + found.errors.by_distance.num_unreachable
    assert judged == sum(found.errors.classes.support)


def test_graphs_of_one_part_alone_are_looked_at(tmp_path):
    run = train(write_graph_file(tmp_path / "graphs.jsonl"), tmp_path / "run", seq_len=2)
    found = analyze_run(run, settings=SETTINGS, out=tmp_path / "other.json")
    config = json.loads((run / "data.json").read_text())
    assert 0 < found.num_graphs < config["num_graphs"]
    assert found.errors is not None
    assert found.errors.classes is not None
    assert sum(found.errors.classes.support) == found.num_graphs
    assert (tmp_path / "other.json").is_file()
    assert not (run / "analysis.json").exists()


def test_runs_on_other_data_are_not_compared(node_runs, tmp_path):
    other = train(write_node_folder(tmp_path / "more", 40), tmp_path / "run", "gcn")
    with pytest.raises(RunError, match="runs on the same data to compare"):
        analyze_run(node_runs[0], compare=[other], settings=SETTINGS)


def test_the_command_prints_what_matters(node_runs, capsys):
    assert main(["analyze", str(node_runs[0]), "--max-graphs", "1", "--samples", "2"]) == 0
    printed = capsys.readouterr()
    assert "influence range, model" in printed.out
    # one sentence on stability
    (sentence,) = [line for line in printed.out.splitlines() if "stable" in line]
    assert sentence.startswith(("States grow", "States stay bounded"))
    assert printed.err.startswith("   0.0 s  loading ...")  # before the slow imports
    assert "dynamics of the blocks" in printed.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--max-graphs", "0"], "max_graphs"), (["--compare", "nowhere"], "There is no run")],
)
def test_the_command_refuses_in_one_sentence(node_runs, capsys, arguments, sentence):
    assert main(["analyze", str(node_runs[0]), *arguments]) == 2
    assert sentence in capsys.readouterr().err
