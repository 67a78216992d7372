"""The ``grama`` command: help, version, and what it says to a mistake."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import torch_grama
from torch_grama.cli import build_parser, main

PROJECT = Path(__file__).parents[2]
QUICK = [
    "models",
    "models gcn",
    "models no-such-model",
    "data list",
    "data check no/such/path",
    "data get no-such-set",
    "train --data no/such/path",
    "train --model gcn --data=no-such-set",
    "train --resume no/such/run",
    *(f"{word} no/such/run" for word in ("info", "predict", "evaluate", "analyze", "export")),
    "report no/such/run",
    "results",
    "reproduce list",
]


@pytest.mark.parametrize("word", ["--help", "-h", "--version"])
def test_help_and_version(capsys, word):
    with pytest.raises(SystemExit) as stop:
        main([word])
    assert stop.value.code == 0
    shown = f"grama {torch_grama.__version__}\n"
    assert capsys.readouterr().out == (shown if "v" in word else build_parser().format_help())


def test_no_argument_prints_the_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out == build_parser().format_help()


def test_the_package_can_be_run():
    done = subprocess.run(
        [sys.executable, "-m", "torch_grama", "--version"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src")},
    )
    expected = (0, f"grama {torch_grama.__version__}\n", "")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_version_is_that_of_the_distribution():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == torch_grama.__version__
    assert project["scripts"] == {"grama": "torch_grama.cli:main"}


@pytest.mark.parametrize("arguments", [["frobnicate"], ["data", "frobnicate"], ["--frobnicate"]])
def test_mistake_ends_with_status_2_and_names_it(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "frobnicate" in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["date"], "Expected a command, one of 'data', "),
        (["REPRODUSE"], "Expected a command, one of 'reproduce', "),
        (["data", "shwo"], "Expected a command, one of 'show', "),
        (["evaluate", "run", "--split", "tset"], "invalid choice: 'tset'"),
    ],
)
def test_a_wrong_word_names_the_nearest_first(capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "at_once"), [("--help", False), ("data list", False), ("data list", True)]
)
def test_output_that_nobody_reads_ends_the_command_quietly(monkeypatch, capsys, words, at_once):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1 if at_once else -1) as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(SystemExit) as stop:
            main(words.split())
    assert stop.value.code == 141
    assert capsys.readouterr().err == ""


def test_help_lists_and_wrong_paths_do_not_wait_for_torch(tmp_path):
    code = f"""
import contextlib, io, json, sys
from torch_grama.cli import main
for words in (["--help"], ["train", "--help"], ["predict", "--help"]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(words)
assert not {{'torch', 'numpy', 'jsonargparse'}} & set(sys.modules), 'help loaded too much'
loaded = {{words: (main(words.split()), "torch" in sys.modules) for words in {QUICK}}}
print(json.dumps(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src")},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    slow = [words for words, (_, waits) in found.items() if waits]
    assert not slow
    assert {words for words, (status, _) in found.items() if status} == {
        words for words in QUICK if "no-such" in words or "no/such" in words
    }


def test_the_models_that_are_listed_are_those_of_the_classes():
    from listed_tables import PATH, build_table

    message = f"{PATH.name} is out of date: run `python tests/listed_tables.py`"
    assert PATH.read_text(encoding="utf-8") == build_table(), message
