"""``grama demo`` on a suite of two epochs: table, picture, page, and nothing done twice."""

import json
import re

import pytest
import yaml

from torch_grama.cli import main
from torch_grama.reproduce import demo_runs

SUITE = {
    "title": "Tiny",
    "data": [
        {"name": "transfer-line-2-carry", "metric": "mse", "set": {"model.num_layers": 3}},
        {"name": "transfer-line-3-carry", "metric": "mse", "set": {"model.num_layers": 4}},
    ],
    "models": ["gcn", "gps-gcn", "grama-gcn"],
    "defaults": {
        "model.hidden_channels": 4,
        "optimizer.lr": 0.003,
        "trainer": {"batch_size": 500, "gradient_clip": 1.0, "accelerator": "cpu"},
    },
    "budgets": {
        "smoke": {
            "set": {"trainer.max_epochs": 1},
            "data": ["transfer-line-2-carry"],
            "models": ["gcn", "grama-gcn"],
        },
        "short": {"set": {"trainer.max_epochs": 2}, "models": ["gcn", "grama-gcn"]},
    },
}


@pytest.fixture
def tiny(tmp_path, monkeypatch, small_transfer):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    monkeypatch.setattr(demo_runs, "FOLDER", folder)
    return tmp_path / "out"


def call(out, *arguments):
    return main(["demo", "--out", str(out), "--jobs", "1", *arguments])


@pytest.mark.slow
def test_demo_shows_draws_and_computes_once(tiny, capsys):
    assert call(tiny, "--seed", "2") == 0
    shown = capsys.readouterr()
    assert "4 runs, 0 of them done" in shown.err
    rows = re.findall(r"^(constant|GCN|GRAMA\(GCN\)) +\*?(\S+) +\*?(\S+)$", shown.out, re.M)
    assert [name for name, *_ in rows] == ["constant", "GCN", "GRAMA(GCN)"]
    assert all(0 < float(error) < 100 for _, *errors in rows for error in errors)
    assert "At 3 hops the error of GRAMA(GCN) is" in shown.out
    assert (tiny / "error-by-distance.png").read_bytes().startswith(b"\x89PNG")
    page = (tiny / "demo.html").read_text(encoding="utf-8")
    assert "GRAMA(GCN)" in page
    assert "<td>seed</td><td>2</td>" in page
    assert ">runs/demo/short/transfer-line-3-carry/grama-gcn/fold0-seed2<" in page
    results = sorted((tiny / "runs").rglob("result.json"))
    assert len(results) == 4
    for path in results:
        made, name = json.loads(path.read_text()), path.parent.relative_to(tiny / "runs").as_posix()
        cells = rf"<td>{made['best_epoch']}</td><td>[\d.]+</td><td>(runs/)?{name}</td>"
        assert re.search(cells, page), name
    times = [path.stat().st_mtime_ns for path in results]

    assert call(tiny, "--seed", "2") == 0
    again = capsys.readouterr()
    assert "4 runs, 4 of them done" in again.err
    assert [path.stat().st_mtime_ns for path in results] == times
    first, second = (text.partition("* lowest")[0] for text in (shown.out, again.out))
    assert first == second


@pytest.mark.slow
def test_quick_claims_nothing(tiny, capsys):
    assert call(tiny, "--quick") == 0
    out = capsys.readouterr().out
    assert "GPS" not in out
    assert "say nothing about the models" in " ".join(out.split())
    assert "3 hops" not in out


@pytest.mark.slow
def test_all_adds_models_and_says_what_sets_them_apart(tiny, capsys):
    assert call(tiny, "--quick", "--all") == 0
    out = capsys.readouterr().out
    assert re.search(r"^GPS\(GCN\) +\S+$", out, re.M)
    assert "GPS also attends to all pairs" in " ".join(out.split())
    assert "all models but GPS" in (tiny / "demo.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_failed_run_is_named_and_the_others_are_shown(tiny, capsys, tmp_path):
    suite = dict(SUITE, rows={"gcn": {"model.num_layers": -1}})
    (tmp_path / "demo" / "suite.yaml").write_text(yaml.safe_dump(suite))
    assert call(tiny, "--quick") == 1
    shown = capsys.readouterr()
    assert "transfer-line-2-carry gcn fold 0 seed 0 failed" in shown.err
    assert "GRAMA(GCN)" in shown.out
    assert "has no result at 2 hops" in shown.out


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--jobs", "0"]])
def test_numbers_out_of_range_are_refused(tmp_path, capsys, arguments):
    with pytest.raises(SystemExit):
        main(["demo", "--out", str(tmp_path / "out"), *arguments])
    assert "expected a whole number from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
