"""The ``grama`` command: help, version, and what it says to a mistake."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import torch_grama
from torch_grama.cli import build_parser, main
from torch_grama.cli.parser import CommandParser

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: grama ")
    assert "--version" in out


def test_no_argument_prints_the_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out == build_parser().format_help()


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"grama {torch_grama.__version__}\n"


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


@pytest.fixture
def parser() -> CommandParser:
    """A parser with commands, one of them with commands of its own."""
    parser = CommandParser(prog="grama")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name in ("train", "reproduce"):
        commands.add_parser(name)
    data = commands.add_parser("data")
    actions = data.add_subparsers(metavar="COMMAND")
    for name in ("list", "get", "show"):
        actions.add_parser(name)
    data.add_argument("--format", choices=["csv", "json"])
    return parser


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dta"], "Expected a command, one of 'data', 'train', 'reproduce' (got 'dta')"),
        (["REPRODUSE"], "Expected a command, one of 'reproduce', "),
        (["data", "lst"], "Expected a command, one of 'list', "),
    ],
)
def test_unknown_command_names_the_nearest_first(capsys, parser, arguments, message):
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_unknown_command_of_grama_names_the_nearest_first(capsys):
    for arguments, nearest in ((["date"], "data"), (["data", "shwo"], "show")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert f"Expected a command, one of '{nearest}'" in capsys.readouterr().err


def test_known_commands_and_other_choices_are_left_alone(capsys, parser):
    assert parser.parse_args(["data", "--format", "csv", "list"]).format == "csv"
    with pytest.raises(SystemExit):
        parser.parse_args(["data", "--format", "cvs", "list"])
    assert "invalid choice: 'cvs'" in capsys.readouterr().err


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
