"""``grama data``: what it lists, fetches, shows and understands."""

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from torch_grama.cli import main
from torch_grama.cli.parser import LoadingProgress
from torch_grama.datasets import graph_property
from torch_grama.datasets.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAMA_DATA", raising=False)
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GRAMA_OFFLINE", "1")
    monkeypatch.setattr(graph_property, "SIZES", ((25, 3), (26, 2), (27, 1)))
    monkeypatch.setattr(graph_property, "COUNTS", (3, 2, 1))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    """Calls ``grama data`` and returns its output; a mistake must be one sentence."""

    def run(*words, status=0):
        assert main(["data", *words]) == status
        captured = capsys.readouterr()
        if status == 0:
            return captured.out
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        return captured.err

    return run


def write_pedalme(folder):
    path = folder / "temporal" / "pedalme_london.json"
    path.parent.mkdir(parents=True)
    content = {"edges": [[0, 1], [1, 0]], "weights": [1, 2], "X": [[k, -k] for k in range(35)]}
    path.write_text(json.dumps(content))


def save_own(name):
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    torch.save(Data(x=torch.rand(12, 2), edge_index=edge_index, y=torch.arange(12) % 2), name)


# list


def test_the_table_has_every_set(run):
    lines = run("list").splitlines()
    assert lines[0].split()[:3] == ["name", "task", "metric"]
    found = {line.split()[0]: line for line in lines[1:] if line}
    assert set(CATALOGUE) <= set(found)
    assert "generated" in found["transfer-line-3"]
    assert "roc_auc ↑" in found["minesweeper"]
    assert re.search(r"135 kB\s+no ", found["minesweeper"])
    assert "on demand" in found["property-sssp"]


def test_what_is_here(run, tmp_path):
    write_pedalme(tmp_path / "mine")
    rows = {r["name"]: r for r in json.loads(run("list", "--json", "--root", "mine"))}
    assert set(rows) == set(CATALOGUE)
    assert (rows["pedalme"]["here"], rows["chickenpox"]["here"]) == ("yes", "no")
    assert (rows["zinc"]["metric"], rows["zinc"]["higher_is_better"]) == ("mae", False)


def test_prepared_sets_are_here(run):
    run("get", "property-diameter")
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert (rows["property-sssp"]["here"], rows["sbm-pattern"]["here"]) == ("yes", "on demand")


# get


def test_sets_are_generated_with_plain_lines(tmp_path, capsys):
    assert main(["data", "get", "property-sssp", "transfer-ring-9", "-o", "seed=5"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "generating graphs ...\n"
    assert f"property-sssp: 6 graphs, in {tmp_path / 'cache'}" in captured.out
    assert "transfer-ring-9: 1,200 graphs, generated whenever asked for" in captured.out
    assert (tmp_path / "cache/compact/property-seed5-v1.npz").is_file()


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_bar_on_a_terminal_and_a_line_without_rich(monkeypatch, has_rich):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    with LoadingProgress() as progress:
        progress.report("fetching", 5, 10)
        progress.report("fetching", 10, 10)
    assert "fetching" in screen.getvalue()
    assert (screen.getvalue() == "fetching ...\n") != has_rich


def test_a_file_of_ones_own_and_one_that_is_missing(run, tmp_path):
    write_pedalme(tmp_path / "mine")
    assert "31 graphs, in mine/temporal" in run("get", "pedalme", "--root", "mine")
    missing = str(tmp_path / "cache/temporal/wikivital_mathematics.json")
    assert missing in run("get", "wikimath", status=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["minesweper"], "Did you mean 'minesweeper'"),
        (["transfer-ring-3", "-o", "variant"], "key=value"),
        (["transfer-ring-3", "-o", "variant=mail"], "'paper', 'legacy' or 'carry'"),
    ],
)
def test_mistakes(run, words, message):
    assert message in run("get", *words, status=2)


# show


def test_statistics_and_a_picture_only_if_asked_for(run, tmp_path):
    out = run("show", "transfer-ring-5")
    assert re.search(r"^nodes\s+12,000\s+12,000\s+=$", out, re.MULTILINE)
    assert "lower is better" in out
    assert list(tmp_path.rglob("*.png")) == []
    for words in (["--picture"], ["--graph", "7"]):
        assert "Picture: transfer-ring-5.png" in run("show", "transfer-ring-5", *words)
        picture = tmp_path / "transfer-ring-5.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink()


def test_json(run, tmp_path):
    words = ["show", "transfer-ring-5", "-o", "variant=carry", "--json", "--picture", "a/b.png"]
    report = json.loads(run(*words, "--graph", "7"))
    assert (report["name"], report["picture"]) == ("transfer-ring-5-carry", "a/b.png")
    assert all(row["agrees"] is not False for row in report["statistics"])
    assert (tmp_path / "a/b.png").is_file()


def test_what_differs_is_said(run, tmp_path):
    write_pedalme(tmp_path / "mine")
    out = run("show", "pedalme", "--root", "mine")
    assert re.search(r"^nodes\s+62\s+465\s+differs$", out, re.MULTILINE)


def test_own_files_are_shown(run, tmp_path):
    save_own("cora.pt")
    assert "2,708" not in run("show", "./cora.pt", "--picture")
    assert (tmp_path / "cora.pt.png").is_file() or (tmp_path / "cora.png").is_file()


# check


def test_options_reach_the_reader(run):
    save_own("mine.pt")
    assert "12" in run("check", "mine.pt")
    assert "regression" in run("check", "mine.pt", "-o", "kind=regression")
    said = run("check", "mine.pt", "-o", "levle=node", status=2)
    assert "(did you mean 'level'?)" in said
    Path("mine.pt").write_bytes(b"")
    assert "mine.pt" in run("check", "mine.pt", status=2)


def test_check_tells_a_data_set_from_files_of_its_name(run):
    Path("cora").mkdir()
    assert "'./cora' means the files of that name" in run("check", "cora", status=2)
    assert "none of the known forms" in run("check", "./cora", status=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["directed=false"], "taken as undirected"),
        (["directed=False"], "taken as undirected"),
        (["directed=true"], "taken as directed"),
        (["categorical=false"], "(float)"),
        (["classes=[0, 1]"], "2 classes: 0"),
        (["ignore=[age, size]"], "no features"),
        (["fractions=[0.5,0.25,0.25]", "seed=3"], "6 / 3 / 3"),
    ],
)
def test_values_of_options(run, words, sentence):
    rows = [f"n{row},{row / 7:.3f},{row}.5,{row % 2}" for row in range(12)]
    Path("nodes.csv").write_text("\n".join(["id,age,size,label", *rows]))
    Path("edges.csv").write_text("source,target\nn0,n1\nn1,n2\n")
    options = [word for option in words for word in ("-o", option)]
    assert sentence in " ".join(run("check", ".", *options).split())


@pytest.mark.parametrize("option", ["level=nodes", "directed=perhaps", "fractions=[1,2]"])
def test_a_value_that_cannot_be_is_one_sentence(run, option):
    save_own("mine.pt")
    said = run("check", "mine.pt", "-o", option, status=2)
    assert said.startswith(f"grama: Expected '{option.partition('=')[0]}'")


def write_faulty():
    rows = [f"n{row},{'old' if row == 4 else row},Name {row},{row % 2}" for row in range(12)]
    Path("nodes.csv").write_text("\n".join(["id,age,weight kg,label", *rows]))
    Path("edges.csv").write_text("source,target,len\nn0,n1,5\nn1,n2,far\n")


def test_all_faults_are_listed_with_the_options_to_copy(capsys):
    write_faulty()
    assert main(["data", "check", ".", "-o", "directed=true"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(".: 2 faults\n  1. 'nodes.csv', line 6: the cell 'old'")
    *_, last = said.splitlines()
    start = "With these options it can be read: grama data check . "
    assert last.startswith(start)
    assert main(["data", "check", ".", *shlex.split(last.removeprefix(start))]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "taken as directed" in out
    assert "taken as missing: 'age' (1, such as 'old'), 'len' (1, such as 'far')." in out


def test_a_fault_of_many_lines_is_said_once_and_hides_no_other(capsys):
    lines = [{"x": [[1.0], [2.0]], "edges": [[0, 1]], "y": row % 2} for row in range(100)]
    for row, line in enumerate(lines):
        line |= {"edges": 7} if row == 70 else {"x": 7} if row % 2 else {}
    Path("graphs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert main(["data", "check", "graphs.jsonl"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("graphs.jsonl: 51 faults 1. 'graphs.jsonl', line 2")
    assert "The same in 49 more lines. 2. 'graphs.jsonl', line 71" in said
    assert "3." not in said


def test_other_commands_say_the_first_fault_and_who_lists_all(run):
    write_faulty()
    said = run("show", "./", status=2)
    assert "'old'" in said
    assert "(1 more fault: `grama data check .` lists all)." in said


def test_lists_may_be_given_one_by_one(run):
    write_faulty()
    both = run("check", ".", "-o", "ignore=age", "-o", "ignore=len")
    assert both == run("check", ".", "-o", "ignore=[age,len]")


def test_a_misspelt_path_is_found_before_any_name(run, tmp_path):
    (tmp_path / "coora").mkdir()
    assert "Did you mean 'coora' or 'cora'" in run("show", "coroa", status=2)
    assert f"(did you mean '{tmp_path}/coora'?)" in run("check", f"{tmp_path}/corra", status=2)
    (tmp_path / "newpar").mkdir()
    assert "Did you mean 'minesweeper'" in run("show", "minesweper", status=2)


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["data"])
    assert caught.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
