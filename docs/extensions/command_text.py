"""The help of every command, and every setting of a run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from inspect import Parameter
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from markdown_text import code, plain, table
from torch_grama.cli import build_parser
from torch_grama.experiments.settings import known_options

SECTIONS = {
    "data": "The data to learn from.",
    "model": "The model; these are the settings of `grama`. Other models have others: "
    "`grama train --model NAME --help-all`.",
    "task": "The loss.",
    "optimizer": "How weights are updated.",
    "schedule": "How the learning rate changes.",
    "trainer": "How long to train, with which batches, on which device.",
}


def describe_commands() -> str:
    """Returns one section per command, with its help as the command prints it."""
    os.environ["COLUMNS"] = "92"
    parts = []
    for name, parser in walk(build_parser()):
        level = "##" if name.count(" ") < 2 else "###"
        parts.append(f"{level} {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


def walk(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields every command below a parser, depth first, in the order of its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield f"{parser.prog} {name}", child
                yield from (pair for pair in walk(child))


def describe_settings() -> str:
    """Returns one table a section of a run's settings."""
    options = known_options()
    parts = []
    for section, about in SECTIONS.items():
        rows = [
            (
                code(name.partition(".")[2]),
                code(type_text(option.annotation)),
                default_text(option.default),
                plain(option.help),
            )
            for name, option in options.items()
            if name.partition(".")[0] == section
        ]
        parts.append(
            f"## `{section}`\n\n{about}\n\n"
            + table(["Setting", "Type", "Default", "Meaning"], rows)
        )
    return "\n".join(parts)


def type_text(annotation: object) -> str:
    """Writes a type as a reader would."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(type_text(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(str(value) for value in get_args(annotation))
    if annotation is type(None):
        return "null"
    if get_origin(annotation) is not None:
        return str(annotation).replace("typing.", "")
    return getattr(annotation, "__name__", str(annotation))


def default_text(default: object) -> str:
    """Writes a default as a YAML file would; nothing where there is none."""
    if default is Parameter.empty:
        return "required"
    if default is None:
        return code("null")
    if isinstance(default, bool):
        return code(str(default).lower())
    if isinstance(default, str | int | float | tuple):
        return code(str(default))
    return code("{}")
