"""Run folders that were damaged in any way, before every command that reads one."""

import json
import random
import shutil
from pathlib import Path

import pytest
from damage import Tally, ask, counts, damage_file, files_of, pick
from sample_data import write_graph_file

COMMANDS = {
    "info": ["info", "run"],
    "info as JSON": ["info", "run", "--json"],
    "predict": ["predict", "run", "--out", "out/predictions.csv"],
    "evaluate": ["evaluate", "run", "--json"],
    "export": ["export", "run", "--out", "out/export"],
    "report": ["report", "run", "--out", "out/report.html"],
    "analyze": ["analyze", "run"],
    "resume": ["train", "--resume", "run", "--json"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A place with data and a finished run, and what its commands answer."""
    place = tmp_path_factory.mktemp("whole")
    write_graph_file(place / "graphs.jsonl", num_graphs=20)
    words = (
        "--model grama-gcn --trainer.max_epochs 2 --model.hidden_channels 4 --model.num_layers 2"
    )
    ask(
        *("train", "--data", str(place / "graphs.jsonl"), "--run", str(place / "run")),
        *("--trainer.accelerator", "cpu", "--quiet", *words.split()),
    )
    ask("predict", str(place / "run"), "--out", str(place / "predictions.csv"))
    _, said, _ = ask("evaluate", str(place / "run"), "--json")
    (place / "evaluated.json").write_text(said)
    return place


@pytest.mark.filterwarnings("ignore:'run' is unfinished")
@counts(16, 120)
def test_no_damage_is_answered_by_an_exception_or_other_numbers(
    whole, tmp_path, monkeypatch, tries
):
    draw = random.Random(20)
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("mine")
    before = json.loads((whole / "evaluated.json").read_text())
    names = sorted(
        path.relative_to(whole / "run")
        for path in (whole / "run").rglob("*")
        if path.is_file() and path.name != ".lock" and "tfevents" not in path.name
    )
    answered, tally = 0, Tally("mutated run folders")
    for number in range(tries):
        name = names[number % len(names)]
        seed = draw.randrange(2**32)
        for command in pick(draw, COMMANDS, tries):
            shutil.rmtree("run", ignore_errors=True)
            shutil.rmtree("out", ignore_errors=True)
            shutil.copytree(whole / "run", "run")
            if command == "resume" and name.name != "result.json":
                Path("run/result.json").unlink()
            way = damage_file(Path("run") / name, random.Random(seed))
            with tally.one(f"{name}, {way} {seed}, {command}"):
                status, said, _ = ask(*COMMANDS[command])
                assert files_of(precious) == {precious / "thesis.tex": b"mine"}
                answered += status == 0
                # what is answered all the same is what the whole run answers
                if status == 0 and command == "predict":
                    told = Path("out/predictions.csv").read_text()
                    assert told == (whole / "predictions.csv").read_text()
                elif status == 0 and command == "evaluate":
                    assert json.loads(said)["accuracy"] == before["accuracy"]
                    assert json.loads(said)["loss"] == before["loss"]
                elif status == 0 and command == "resume" and name.name != "result.json":
                    assert json.loads(said)["losses"]["test"] == before["loss"]
    tally.close()
    assert answered  # damage of what a command does not need
