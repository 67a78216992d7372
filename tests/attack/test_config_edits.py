"""A run goes on with what it was started with, and says what was changed."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from damage import ODD, Tally, ask, counts, damage_bytes, damage_value
from sample_data import write_graph_file

from torch_grama.cli import main
from torch_grama.datasets import load
from torch_grama.experiments import run_experiment
from torch_grama.experiments.finished_run import load_run
from torch_grama.experiments.run import load_config
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError
from torch_grama.training.checkpoint_file import FREE, hash_data, read_checkpoint, write_checkpoint

SHORT = "--model gin --trainer.max_epochs 3 --model.hidden_channels 8 --trainer.accelerator cpu"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with data and a finished run of three epochs."""
    folder = tmp_path_factory.mktemp("place")
    write_graph_file(folder / "graphs.jsonl", num_graphs=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["train", "--data", "graphs.jsonl", "--run", "run", "--quiet"]
        assert main([*words, *SHORT.split()]) == 0
    return folder


@pytest.fixture
def run(place, tmp_path, monkeypatch) -> Path:
    """The finished run, in a copy of its folder."""
    monkeypatch.chdir(shutil.copytree(place, tmp_path / "copy"))
    return Path("run")


@pytest.fixture
def cut_run(run) -> Path:
    """The same as if it was killed before its result was written."""
    (run / "result.json").unlink()
    return run


def edit(run: Path, section: str, name: str, value: object) -> None:
    content = yaml.safe_load((run / "config.yaml").read_text())
    content[section][name] = value
    (run / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("optimizer", "lr", 0.5),
        ("optimizer", "name", "sgd"),
        ("model", "hidden_channels", 16),
        ("model", "dropout", 0.9),
        ("trainer", "batch_size", 3),
        ("trainer", "loader", "graphs"),
        ("data", "rwse", 3),
    ],
)
def test_an_edited_setting_is_named(cut_run, capsys, section, name, value):
    edit(cut_run, section, name, value)
    capsys.readouterr()
    assert main(["train", "--resume", "run"]) == 2
    said = capsys.readouterr().err
    assert f"{section}.{name} from" in said
    assert "Traceback" not in said
    assert not (cut_run / "result.json").exists()
    if name != "rwse":
        with pytest.raises(RunError, match=f"{section}.{name} from"):
            load_run(cut_run)


def test_half_a_config_is_refused(cut_run, capsys):
    path = cut_run / "config.yaml"
    lines = path.read_text().splitlines(keepends=True)
    whole = len(lines)
    for kept in range(0, next(n for n, line in enumerate(lines) if "environment" in line), 5):
        path.write_text("".join(lines[:kept]))
        assert main(["train", "--resume", "run"]) == 2, f"{kept} of {whole} lines"
        assert "was cut short" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:'run' is unfinished")
def test_changed_values_of_the_data_are_noticed(cut_run, capsys):
    graphs = [json.loads(line) for line in Path("graphs.jsonl").read_text().splitlines()]
    graphs[-1]["x"][0][0] *= -7
    Path("graphs.jsonl").write_text("\n".join(map(json.dumps, graphs)))
    assert main(["train", "--resume", "run"]) == 2
    assert "The data is not what 'run' was started with" in capsys.readouterr().err
    for command in ("evaluate", "analyze"):
        assert main([command, "run"]) == 2
        assert "is not what the run 'run' was trained on" in capsys.readouterr().err
    assert main(["predict", "run"]) == 0  # which asks for no labels


def test_what_may_change_is_recorded(cut_run, capsys):
    Path("graphs.jsonl").rename("moved.jsonl")
    Path("graphs.jsonl.splits.json").rename("moved.jsonl.splits.json")
    edit(cut_run, "data", "name", "moved.jsonl")
    assert main(["train", "--resume", "run", "--trainer.max_epochs", "5", "--json"]) == 0
    result = Result.load(cut_run / "result.json")
    assert result.epochs == 5
    assert result.changes == (
        'data.name from "graphs.jsonl" to "moved.jsonl" after 3 epochs',
        "trainer.max_epochs from 3 to 5 after 3 epochs",
    )
    assert load_config(cut_run).trainer.max_epochs == 5
    assert main(["train", "--resume", "run", "--seed", "3"]) == 2
    error = capsys.readouterr().err
    assert "'seed' cannot be changed" in error
    assert f"except for {', '.join(FREE)};" in error


def test_a_finished_run_is_no_result_of_other_settings(run):
    other = load_config("run", {"optimizer.lr": 0.5})
    with pytest.raises(RunError, match=r"optimizer.lr from .* to 0.5"):
        run_experiment(other, run, resume=True)


def test_facts_of_other_data_are_refused(cut_run):
    path = cut_run / "data.json"
    facts = json.loads(path.read_text())
    facts["class_names"].reverse()
    path.write_text(json.dumps(facts))
    with pytest.raises(RunError, match=r"data is not what .* was started with"):
        load_run(cut_run)
    assert main(["train", "--resume", "run", "--quiet"]) == 0  # which has the data, and heals it
    assert load_run(cut_run).facts.class_names == ("line", "ring")


def test_a_checkpoint_of_before_is_followed_with_a_note(cut_run, capsys):
    path = cut_run / "checkpoints" / "last.ckpt"
    content = read_checkpoint(path)
    del content["callbacks"]["EpochEnd"]["origin"]
    write_checkpoint(path, content)
    assert main(["train", "--resume", "run"]) == 0
    assert "says nothing of its settings and data" in capsys.readouterr().err


def test_the_hash_knows_every_value(place):
    path = place / "graphs.jsonl"
    before = hash_data(load(str(path)), 0)
    assert hash_data(load(str(path)), 0) == before
    for name in ("x", "edge_index", "y"):
        data = load(str(path))
        data.graphs[7][name].view(-1)[-1] += 1
        assert hash_data(data, 0) != before, name
    data = load(str(path))
    data.folds[0].test[0], data.folds[0].test[1] = data.folds[0].test[[1, 0]].tolist()
    assert hash_data(data, 0) != before
    data.graphs[0]["weights"] = torch.ones(3, dtype=torch.bfloat16)
    assert hash_data(data, 0)


@counts(6, 400)
def test_no_edit_is_taken_without_a_word(cut_run, tries):
    """Any setting, to any value that it can have: named, unless it may change."""
    draw, tally = random.Random(3), Tally("edited settings")
    whole = (cut_run / "config.yaml").read_bytes()
    names = sorted(set(load_config(cut_run).to_settings()) - set(FREE))
    odd = [value for value in ODD if not isinstance(value, dict)]  # without entries: nothing
    values = [*odd, 3, 0.25, False, "adam", "mean", "relu", "cosine", "subgraphs", [0.5, 0.5]]
    for number in range(tries):
        name = names[number % len(names)] if tries > 100 else draw.choice(names)
        content = yaml.safe_load(whole)
        section, _, last = name.partition(".")
        place = content[section] if last else content
        before, place[last or section] = place[last or section], draw.choice(values)
        (cut_run / "config.yaml").write_text(yaml.safe_dump(content, allow_unicode=True))
        with tally.one(f"{name} {place[last or section]!r}"):
            status, _, said = ask("train", "--resume", "run", "--quiet")
            if place[last or section] != before:
                assert status == 2
                assert last in said or section in said
            (cut_run / "result.json").unlink(missing_ok=True)
        (cut_run / "config.yaml").write_bytes(whole)
    tally.close()


@counts(10, 400)
def test_no_config_file_is_answered_by_an_exception(cut_run, tries):
    draw, tally = random.Random(4), Tally("damaged config files")
    whole = (cut_run / "config.yaml").read_bytes()
    for number in range(tries):
        content = damage_bytes(whole, draw)
        if number % 2:
            text = yaml.safe_dump(damage_value(yaml.safe_load(whole), draw), allow_unicode=True)
            content = text.encode()
        Path("own.yaml").write_bytes(content)
        with tally.one(f"try {number}"):
            ask("train", "--config", "own.yaml", "--print-config")
    tally.close()


HOSTILE = {
    "a circle of aliases": "a: &a\n  b: *a\n",
    "many aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
    ),
    "deep lists": f"x: {'[' * 900}{']' * 900}",
    "rather deep lists": f"model:\n  num_layers: {'[' * 200}{']' * 200}",
    "a long number": f"seed: {'9' * 5000}",
    "a large seed": f"data: graphs.jsonl\nseed: {2**70}",
    "a negative seed": "data: graphs.jsonl\nseed: -1",
    "a word as seed": "seed: abc",
    "an object": "seed: !!python/object/apply:os.getcwd []",
    "a zero byte": "\0",
    "no number as fraction": "data: {name: graphs.jsonl, options: {fractions: [.nan, .nan, .nan]}}",
    **{
        f"the option {name}": f"data: {{name: graphs.jsonl, options: {{{name}: x}}}}"
        for name in ("name", "report", "root", "transforms", "seed")
    },
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_config_is_one_sentence(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    write_graph_file(tmp_path / "graphs.jsonl", num_graphs=20)
    Path("own.yaml").write_text(HOSTILE[what])
    words = ["train", "--config", "own.yaml", "--run", "run", "--quiet"]
    status, _, said = ask(*words, *SHORT.split())
    assert status == 2
    assert said.count("\n") == 1
    assert len(said) < 1000
