"""``grama results``: lists, keeps and puts numbers into the README."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from result_files import write_result

from torch_grama.cli import main
from torch_grama.report.pair_table import BEGIN, END


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Run folders with two numbers, and an empty folder for those to be kept."""
    monkeypatch.chdir(tmp_path)
    runs, results = tmp_path / "runs", tmp_path / "results"
    results.mkdir()
    for fold in (0, 1):
        path = write_result(runs, model="grama-gcn", fold=fold, test=0.8 + 0.1 * fold)
        path.with_name("config.yaml").write_text("seed: 0\n")
    write_result(runs, model="gcn", budget="smoke", test=None)
    return runs, results


def call(places, *arguments):
    runs, results = places
    return main(["results", "--runs", str(runs), "--results", str(results), *arguments])


def test_json_has_every_number_with_its_source(places, capsys):
    assert call(places, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    by_model = {fact["model"]: fact for fact in facts}
    assert set(by_model) == {"gcn", "grama-gcn"}
    ours = by_model["grama-gcn"]
    assert (ours["suite"], ours["budget"], ours["data"]) == ("hetero", "full", "minesweeper")
    assert (ours["runs"], ours["parameters"], ours["hardware"]) == (2, 1000, "test bench")
    assert ours["mean"] == pytest.approx(85)
    assert (ours["paper"], ours["paper_deviation"]) == (95.27, 0.71)
    assert Path(ours["config"]).is_file()
    assert by_model["gcn"]["mean"] is None


def test_table_has_a_line_a_number(places, capsys):
    assert call(places) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        *("suite", "budget", "data", "model", "metric", "mean", "deviation", "runs", "paper"),
        *("parameters", "version", "hardware"),
    ]
    assert [line.split()[3] for line in lines[:2]] == ["grama-gcn", "gcn"]
    assert lines[-1] == "Left out to fit the width: config; `--json` has all."
    assert lines[1].split()[5] == "-"


def test_numbers_of_an_older_version_are_marked_and_explained(places, capsys):
    old = {"torch_grama": "0.1.0"}
    write_result(places[0], model="grama-gps", versions=old)
    assert call(places) == 0
    *lines, empty, sentence = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines if "†" in line] == ["grama-gps"]
    assert (empty, sentence.split(";")[0]) == ("", "† made by version 0.1.0")
    assert call(places, "--json") == 0
    facts = {fact["model"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert (facts["grama-gps"]["version"], facts["grama-gps"]["is_old"]) == ("0.1.0", True)
    assert (facts["grama-gcn"]["version"], facts["grama-gcn"]["is_old"]) == (None, False)


def test_without_numbers_it_says_how_to_get_some(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    assert main(["results", "--results", "kept"]) == 0
    assert "grama reproduce" in capsys.readouterr().out


def test_kept_numbers_survive_their_runs(places, capsys):
    runs, results = places
    assert call(places, "--keep") == 0
    capsys.readouterr()
    elsewhere = (runs / "nothing", results)
    elsewhere[0].mkdir()
    assert call(elsewhere, "--json") == 0
    facts = {fact["model"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert facts["grama-gcn"]["mean"] == pytest.approx(85)
    assert Path(facts["grama-gcn"]["config"]).read_text() == "seed: 0\n"


def test_readme_is_renewed_from_what_is_kept(places, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{BEGIN}\n{END}\nb\n")
    assert call(places, "--keep", "--readme", str(readme)) == 0
    text = readme.read_text()
    assert "| minesweeper | AUC ↑ | not run |" in text
    assert text.startswith("a\n")
    assert text.endswith("b\n")
    assert call(places, "--readme", str(readme)) == 0
    assert readme.read_text() == text


def test_a_readme_without_markers_is_a_mistake(places, tmp_path, capsys):
    (tmp_path / "README.md").write_text("nothing")
    assert call(places, "--readme", str(tmp_path / "README.md")) == 2
    assert "end of results" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == "nothing"


def test_missing_folder_of_kept_numbers_is_named(places, capsys):
    runs, results = places
    assert call((runs, results / "absent")) == 2
    assert "absent" in capsys.readouterr().err


def test_missing_folder_of_runs_is_named(places, capsys):
    runs, results = places
    assert call((runs / "absent", results)) == 2
    assert f"Expected a folder of runs at '{runs / 'absent'}'" in capsys.readouterr().err


def test_a_half_written_result_is_named_and_not_kept(places, capsys):
    runs, results = places
    broken = next(path for path in runs.rglob("result.json") if "fold1" in path.parent.name)
    broken.write_text('{"data": "mi')
    assert call(places, "--keep", "--json") == 0
    out, err = capsys.readouterr()
    assert f"not kept: '{broken}'" in err
    assert next(f for f in json.loads(out) if f["model"] == "grama-gcn")["runs"] == 1
    assert not list(results.rglob("fold1*.json"))


def test_measured_times_name_their_file(places, capsys):
    _, results = places
    row = {"scene": "depth", "model": "GRAMA(GCN)", "width": 256, "depth": 4}
    times = {"hardware": "a card", "rows": [{**row, "train_ms": 3.0, "infer_ms": 1.0}]}
    (results / "runtime").mkdir()
    path = results / "runtime" / "card.json"
    path.write_text(json.dumps(times))
    (results / "runtime" / "half.json").write_text("{")
    assert call(places, "--json") == 0
    out, err = capsys.readouterr()
    fact = next(fact for fact in json.loads(out) if fact["metric"] == "training_ms")
    assert (fact["mean"], fact["hardware"], fact["config"]) == (
        3.0,
        "a card",
        "results/runtime/card.json",
    )
    assert fact["parameters"] is None
    assert "half.json: not a file of measured times" in err


def test_only_what_is_asked_for(places, capsys):
    assert call(places, "--json", "--model", "gcn", "--suite", "hetero") == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert only["model"] == "gcn"
    assert call(places, "--data", "minesweper") == 2
    assert "Expected '--data' to be one of 'minesweeper' (got 'minesweper')" in (
        capsys.readouterr().err
    )


def test_the_numbers_of_the_package_fit_120_columns_and_name_no_folder_of_this_machine(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["results"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 20
    assert max(map(len, lines)) <= 120
    assert main(["results", "--json", "--suite", "hetero"]) == 0
    configs = {fact["config"] for fact in json.loads(capsys.readouterr().out)}
    assert configs
    assert all(config.startswith("results/hetero/full/") for config in configs)


def test_a_folder_of_the_old_budget_is_read_as_full(places, capsys):
    write_result(places[0], model="gps", budget="paper")
    assert call(places, "--json", "--model", "gps") == 0
    assert json.loads(capsys.readouterr().out)[0]["budget"] == "full"
