"""``grama reproduce`` goes on after SIGKILL, whatever it was doing."""

from pathlib import Path

import pytest
import yaml

from torch_grama.cli import main

EPOCHS = 8
TRAINER = {"max_epochs": EPOCHS, "patience": None, "batch_size": 500, "save_every": 0}


@pytest.fixture
def command(tmp_path):
    folder = tmp_path / "configs" / "tiny"
    folder.mkdir(parents=True)
    suite = {
        "title": "Tiny",
        "data": [{"name": "transfer-ring-3", "metric": "mse"}],
        "models": ["gcn"],
        "defaults": {"model.hidden_channels": 4, "model.num_layers": 2},
        "budgets": {"smoke": {"runs": 2, "set": {"trainer": TRAINER}}},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    (tmp_path / "kept").mkdir()

    def build(runs: Path) -> list[str]:
        places = {"--configs": tmp_path / "configs", "--runs": runs, "--results": tmp_path / "kept"}
        pairs = [str(word) for pair in places.items() for word in pair]
        return ["reproduce", "tiny", "--quiet", *pairs]

    return build


@pytest.mark.slow
def test_killed_in_the_middle_it_ends_with_the_same_table(start_grama, command, tmp_path, capsys):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start_grama(*command(killed))
    # one run is finished, and the next has trained for some epochs
    process.wait_until(lambda: _is_in_the_middle(killed))
    process.kill()
    process.communicate()
    done = {path: path.stat().st_mtime_ns for path in killed.rglob("result.json")}
    assert len(done) == 1
    assert main(command(killed)) == 0
    table = capsys.readouterr().out
    assert len(list(killed.rglob("result.json"))) == 2
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert main(command(whole)) == 0
    assert table == capsys.readouterr().out
    for path in killed.rglob("metrics.csv"):
        epochs = [line.split(",")[0] for line in path.read_text().splitlines()[1:]]
        assert epochs == [str(epoch) for epoch in range(1, EPOCHS + 1)]


def _is_in_the_middle(runs: Path) -> bool:
    finished = {path.parent for path in runs.rglob("result.json")}
    return bool(finished) and any(
        path.read_text().count("\n") > 3
        for path in runs.rglob("metrics.csv")
        if path.parent not in finished
    )
