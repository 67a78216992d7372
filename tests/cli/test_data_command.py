import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import torch_grama
from torch_grama.cli import data, main
from torch_grama.cli.loading import LoadingProgress
from torch_grama.datasets import graph_property
from torch_grama.datasets.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAMA_DATA", raising=False)
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GRAMA_OFFLINE", "1")
    monkeypatch.setattr(graph_property, "SIZES", ((25, 3), (26, 2), (27, 1)))
    monkeypatch.setattr(graph_property, "COUNTS", (3, 2, 1))
    monkeypatch.chdir(tmp_path)


def _pedalme(folder: Path) -> None:
    path = folder / "temporal" / "pedalme_london.json"
    path.parent.mkdir(parents=True)
    content = {"edges": [[0, 1], [1, 0]], "weights": [1, 2], "X": [[k, -k] for k in range(35)]}
    path.write_text(json.dumps(content))


class TestList:
    def test_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["data", "list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[:3] == ["name", "task", "metric"]
        found = {line.split()[0]: line for line in lines[1:] if line}
        assert set(CATALOGUE) <= set(found)
        assert "generated" in found["transfer-line-3"]
        assert "roc_auc ↑" in found["minesweeper"]
        assert re.search(r"135 kB\s+no ", found["minesweeper"])
        assert "on demand" in found["property-sssp"]

    def test_what_is_here(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _pedalme(tmp_path / "mine")
        assert main(["data", "list", "--json", "--root", str(tmp_path / "mine")]) == 0
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
        assert rows["pedalme"]["here"] == "yes"
        assert rows["chickenpox"]["here"] == "no"
        assert rows["zinc"]["metric"] == "mae"
        assert rows["zinc"]["higher_is_better"] is False
        assert set(rows) == set(CATALOGUE)

    def test_prepared_sets_are_here(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["data", "get", "property-diameter"])
        capsys.readouterr()
        main(["data", "list", "--json"])
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
        assert rows["property-sssp"]["here"] == "yes"
        assert rows["sbm-pattern"]["here"] == "on demand"


class TestGet:
    def test_generates_with_plain_lines(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["data", "get", "property-sssp", "transfer-ring-9", "-o", "seed=5"]) == 0
        captured = capsys.readouterr()
        assert captured.err == "generating graphs ...\n"
        assert f"property-sssp: 6 graphs, in {tmp_path / 'cache'}" in captured.out
        assert "transfer-ring-9: 1,200 graphs, generated whenever asked for" in captured.out
        assert (tmp_path / "cache/compact/property-seed5-v1.npz").is_file()

    def test_bar_on_a_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        with LoadingProgress() as progress:
            progress.report("fetching", 5, 10)
            progress.report("fetching", 10, 10)
        assert "fetching" in screen.getvalue()

    def test_without_rich(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setitem(sys.modules, "rich.progress", None)
        with LoadingProgress() as progress:
            progress.report("fetching", 5, 10)
            progress.report("fetching", 10, 10)
        assert capsys.readouterr().err == "fetching ...\n"

    def test_missing_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["data", "get", "wikimath"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert str(tmp_path / "cache/temporal/wikivital_mathematics.json") in captured.err

    def test_local_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _pedalme(tmp_path / "mine")
        assert main(["data", "get", "pedalme", "--root", "mine"]) == 0
        assert "31 graphs, in mine/temporal" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["minesweper"], "Did you mean 'minesweeper'"),
            (["transfer-ring-3", "-o", "variant"], "key=value"),
            (["transfer-ring-3", "-o", "variant=mail"], "'paper', 'legacy' or 'carry'"),
        ],
    )
    def test_mistakes(
        self, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["data", "get", *words]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""


class TestShow:
    def test_statistics_and_picture(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["data", "show", "transfer-ring-5"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"^nodes\s+12,000\s+12,000\s+=$", out, re.MULTILINE)
        assert "lower is better" in out
        assert "Picture: transfer-ring-5.png" in out
        assert (tmp_path / "transfer-ring-5.png").read_bytes().startswith(b"\x89PNG")

    def test_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["show", "transfer-ring-5", "-o", "variant=carry", "--json", "--picture", "a/b.png"]
        assert main(["data", *words, "--graph", "7"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["name"] == "transfer-ring-5-carry"
        assert report["picture"] == "a/b.png"
        assert all(row["agrees"] is not False for row in report["statistics"])
        assert (tmp_path / "a/b.png").is_file()

    def test_what_differs_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _pedalme(tmp_path / "mine")
        assert main(["data", "show", "pedalme", "--root", "mine", "--no-picture"]) == 0
        out = capsys.readouterr().out
        assert re.search(r"^nodes\s+62\s+465\s+differs$", out, re.MULTILINE)
        assert list(tmp_path.glob("*.png")) == []

    def test_own_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _save_own(tmp_path / "cora.pt")
        assert main(["data", "show", "./cora.pt"]) == 0
        out = capsys.readouterr().out
        assert "2,708" not in out
        assert (tmp_path / "cora.pt.png").is_file() or (tmp_path / "cora.png").is_file()


def _save_own(path: Path) -> None:
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    torch.save(Data(x=torch.rand(12, 2), edge_index=edge_index, y=torch.arange(12) % 2), path)


class TestCheck:
    def test_says_what_it_understood(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _save_own(tmp_path / "mine.pt")
        assert main(["data", "check", "mine.pt"]) == 0
        out = capsys.readouterr().out
        assert "12" in out
        assert len(out.splitlines()) < 50

    def test_options_reach_the_reader(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _save_own(tmp_path / "mine.pt")
        assert main(["data", "check", "mine.pt", "-o", "kind=regression"]) == 0
        assert "regression" in capsys.readouterr().out
        assert main(["data", "check", "mine.pt", "-o", "levle=node"]) == 2
        assert "did you mean 'level'" in capsys.readouterr().err

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
    def test_values_of_options(
        self, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [f"n{row},{row / 7:.3f},{row}.5,{row % 2}" for row in range(12)]
        Path("nodes.csv").write_text("\n".join(["id,age,size,label", *rows]))
        Path("edges.csv").write_text("source,target\nn0,n1\nn1,n2\n")
        options = [word for option in words for word in ("-o", option)]
        assert main(["data", "check", ".", *options]) == 0
        assert sentence in " ".join(capsys.readouterr().out.split())

    @pytest.mark.parametrize("option", ["level=nodes", "directed=perhaps", "fractions=[1,2]"])
    def test_a_value_that_cannot_be_is_one_sentence(
        self, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _save_own(tmp_path / "mine.pt")
        assert main(["data", "check", "mine.pt", "-o", option]) == 2
        assert capsys.readouterr().err.startswith(f"grama: Expected '{option.partition('=')[0]}'")

    def test_broken_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine.pt").write_bytes(b"")
        assert main(["data", "check", "mine.pt"]) == 2
        captured = capsys.readouterr()
        assert "mine.pt" in captured.err
        assert captured.err.count("\n") == 1


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "data" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "value"),
    [("carry", "carry"), ("3", "3"), ("", ""), ("[a, 'b c']", ["a", "b c"]), ("[]", [])],
)
def test_values_of_options(text: str, value: object) -> None:
    assert data._parse_options([f"some-key={text}"]) == {"some_key": value}


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["data"])
    assert caught.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_parsing_does_not_import_the_data_sets() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(torch_grama.__file__).parents[1])!r}); "
        "from torch_grama.cli import build_parser; build_parser(); "
        "sys.exit('torch_grama.datasets' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
