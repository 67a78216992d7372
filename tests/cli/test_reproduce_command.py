"""``grama reproduce``: what it prints, and what it says to mistakes."""

import json
import signal
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from result_files import write_result

from torch_grama.cli import main
from torch_grama.reproduce import reproduction
from torch_grama.reproduce.suite import find_suite

TINY = {
    "title": "Tiny",
    "about": "a test",
    "tables": ["transfer"],
    "data": [{"name": "transfer-ring-3", "metric": "mse"}],
    "models": ["gcn", "grama-gcn"],
    "defaults": {"model": {"hidden_channels": 4, "num_layers": 2}},
    "budgets": {"smoke": {"runs": 2, "set": {"trainer": {"max_epochs": 1, "batch_size": 500}}}},
}
SUMMARY = {
    "title": "Summary",
    "tables": ["transfer"],
    "data": [{"name": "transfer-ring-3", "metric": "mse", "suite": "tiny"}],
    "models": ["grama-gcn", "gcn"],
}
TIMES = {
    "title": "Times",
    "tables": ["runtime"],
    "data": [{"name": "roman-empire", "label": "training", "metric": "training_ms"}],
}


@pytest.fixture
def places(tmp_path, monkeypatch, small_transfer):
    """Three experiments, one kept number, and no runs; returns the options that name them."""
    monkeypatch.delenv("GRAMA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, suite in (("tiny", TINY), ("summary", SUMMARY), ("runtime", TIMES)):
        folder = tmp_path / "configs" / name
        folder.mkdir(parents=True)
        (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    kept = tmp_path / "kept"
    write_result(kept, "tiny", "smoke", data="transfer-ring-3", model="gcn", metric="mse", test=0.5)
    folders = {"--configs": tmp_path / "configs", "--runs": tmp_path / "runs", "--results": kept}
    return [str(word) for pair in folders.items() for word in pair]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show", "--models", "gnc"], "such as 'gcn'"),
        (["--show", "--models", "grama-gnc"], "one of 'gcn'"),
        (["--show", "--budget", "smal"], "one of smoke (got 'smal')"),
        (["--plan", "--budget", "smal"], "one of smoke (got 'smal')"),
        (["--show", "--data", "ring"], "one of 'transfer-ring-3' (got 'ring')"),
        (["--show", "--format", "pdf"], "csv, html (got 'pdf')"),
    ],
)
def test_a_wrong_word_is_one_sentence(places, capsys, words, said):
    assert main(["reproduce", "tiny", *places, *words]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "one"], "from 0 on (got 'one')"),
        (["--seeds", "-1"], "--seeds"),
        (["--jobs", "0"], "from 1 on (got '0')"),
    ],
)
def test_numbers_are_checked_before_anything_runs(places, capsys, words, said):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "tiny", *places, *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_a_missing_folder_of_results_is_told_before_anything_runs(places, capsys, tmp_path):
    assert main(["reproduce", "tiny", *places, "--results", str(tmp_path / "nowhere")]) == 2
    assert "nowhere'; name another with `--results`" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_too_few_runs_and_rows_of_the_paper_are_shown(places, capsys):
    assert main(["reproduce", "tiny", *places, "--show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    own = next(line for line in lines if line.startswith("GCN "))
    assert "*0.5000 (1 of 2 runs, smoke)" in own
    assert "4.57e-03" in own
    assert "+0.4954" in own
    assert any(line.startswith("SWAN ") and "not run" in line for line in lines)
    assert any(line.startswith("constant ") for line in lines)
    assert main(["reproduce", "tiny", *places, "--show", "--models", "swan"]) == 0
    assert "not run" in capsys.readouterr().out


def test_a_run_shows_the_numbers_of_the_budget_that_ran(places, tmp_path, capsys):
    kept = {"data": "transfer-ring-3", "model": "gcn", "metric": "mse"}
    write_result(tmp_path / "kept", "tiny", "full", **kept, test=0.25)
    command = ["reproduce", "tiny", *places, "--models", "gcn", "--quiet"]
    assert main(command) == 0
    own = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("GCN "))
    assert "(2 runs, smoke)" in own
    assert main([*command, "--show"]) == 0
    assert "0.2500 (1 run, full)" in capsys.readouterr().out


def test_a_summary_has_its_own_rows_only(places, capsys):
    assert main(["reproduce", "summary", *places, "--show", "--format", "csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[2] for line in lines] == ["grama-gcn", "gcn"]
    assert lines[1].split(",")[head.split(",").index("runs")] == "1"


def test_times_need_no_data(places, capsys):
    assert main(["reproduce", "runtime", *places, "--show"]) == 0
    out = capsys.readouterr().out
    assert "data not here" not in out
    assert "not run" in out


def test_a_page_goes_to_its_file_and_not_to_the_terminal(places, tmp_path, capsys):
    path = tmp_path / "new" / "page.html"
    call = ["reproduce", "tiny", *places, "--show", "--format", "html"]
    assert main([*call, "--out", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert main(call) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_data_is_looked_at_once(places, monkeypatch):
    loads = []
    load = reproduction.load_with

    def count(name, *arguments):
        loads.append(name)
        return load(name, *arguments)

    monkeypatch.setattr(reproduction, "load_with", count)
    assert main(["reproduce", "tiny", *places, "--models", "gcn", "--seeds", "0", "--quiet"]) == 0
    before = len(loads)
    assert main(["reproduce", "tiny", *places, "--models", "gcn", "--seeds", "0", "--quiet"]) == 0
    assert len(loads) == before + 1


def test_absent_data_is_said_once_and_nothing_is_fetched_for_a_table(places, tmp_path, capsys):
    suite = {**TINY, "data": [{"name": "malnet-tiny", "metric": "accuracy"}]}
    (tmp_path / "configs" / "tiny" / "suite.yaml").write_text(yaml.safe_dump(suite))
    suite = find_suite("tiny", tmp_path / "configs")
    facts = reproduction.look_at_column(suite, suite.data[0], may_fetch=False)
    assert (facts.absent, facts.references) == ("data not here", {})
    assert capsys.readouterr().err == ""


def test_runs_in_parallel_have_a_bar_for_each_model(places, monkeypatch, capsys):
    def fail(runs, jobs):
        for run in runs:
            yield run, ValueError("a fault")

    monkeypatch.setattr(reproduction, "run_in_processes", fail)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["reproduce", "tiny", *places, "--jobs", "2"]) == 1
    err = capsys.readouterr().err
    assert "[4/4] transfer-ring-3 grama-gcn fold 0 seed 1: failed: a fault\n" in err
    assert "0/2 epochs" in err
    assert main(["reproduce", "tiny", *places, "--jobs", "2", "--quiet"]) == 1
    assert "epochs" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jobs", "number"),
    [pytest.param("1", signal.SIGINT, marks=pytest.mark.long), ("2", signal.SIGTERM)],
)
def test_an_interrupt_stops_all_and_says_how_to_go_on(start_grama, places, tmp_path, jobs, number):
    suite = json.loads(json.dumps(TINY))
    suite["budgets"]["smoke"] = {
        "runs": 4,
        "set": {"trainer": {"max_epochs": 100_000, "patience": None, "batch_size": 500}},
    }
    (tmp_path / "configs" / "tiny" / "suite.yaml").write_text(yaml.safe_dump(suite))
    process = start_grama("reproduce", "tiny", *places, "--jobs", jobs)
    begun = (tmp_path / "runs").rglob
    process.wait_until(lambda: len(list(begun("metrics.csv"))) >= int(jobs))
    process.send_signal(number)
    _, err = process.communicate(timeout=1200)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == "grama: interrupted; the same command goes on."
    assert "Traceback" not in err
    assert len(list(begun("metrics.csv"))) == int(jobs)  # no other was begun
    assert len(list(begun("last.ckpt"))) == int(jobs)
