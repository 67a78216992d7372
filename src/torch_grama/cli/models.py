"""``grama models``: lists every model that can be built by word."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from torch_grama.cli.parser import Commands, print_json
from torch_grama.runs.words import name_nearest

# The size for which a table of all models is kept, so that listing them loads none.
WIDTH, DEPTH = 64, 8


def add_to(commands: Commands) -> None:
    models = commands.add_parser(
        "models",
        help="list the models: equation, reference, size, cost",
        description="Lists every model that `grama train --model NAME` takes.",
        epilog="examples:\n  grama models\n  grama models gcn grama --num-layers 16\n"
        "  grama models --json > models.json",
    )
    add = models.add_argument
    add("names", nargs="*", metavar="NAME", help="show these in full")
    add("--hidden-channels", type=int, default=WIDTH, metavar="N", help=f"width [{WIDTH}]")
    add("--num-layers", type=int, default=DEPTH, metavar="N", help=f"depth [{DEPTH}]")
    models.add_json()
    models.runs(_models, ValueError)


def _models(arguments: argparse.Namespace) -> int:
    names = [name.strip().lower().replace("_", "-") for name in arguments.names]
    sizes = arguments.hidden_channels, arguments.num_layers
    models = _list(*sizes)
    words = [str(model["name"]) for model in models]
    for name in names:
        if name not in words:
            raise ValueError(
                f"Expected one of the {len(words)} names that `grama models` prints, such as "
                f"{name_nearest(name, words, 5)} (got {name!r})"
            )
    chosen = [model for model in models if not names or model["name"] in names]
    if arguments.json:
        print_json(chosen, 2)
    elif names:
        print("\n\n".join(_in_full(model) for model in chosen))
    else:
        _print_families(chosen)
        print(
            f"\nParameters at width {sizes[0]} and depth {sizes[1]}, 64 features, 10 outputs.\n"
            "* departs from its paper, ! depends on the numbering of nodes; `grama models NAME` "
            "says how, with\nreference and cost, and `grama train --model NAME --help-all` lists "
            "its options."
        )
    return 0


def _list(width: int, depth: int) -> list[dict[str, Any]]:
    """The facts of every model: at the usual size from a table, otherwise by building all."""
    if (width, depth) == (WIDTH, DEPTH):
        table = files("torch_grama") / "experiments" / "models.json"
        listed: list[dict[str, Any]] = json.loads(table.read_text(encoding="utf-8"))
        return listed
    from dataclasses import asdict

    from torch_grama.experiments.models import list_models

    return [asdict(model) for model in list_models(width, depth)]


def _print_families(models: Sequence[Mapping[str, Any]]) -> None:
    width = max(len(model["name"]) for model in models)
    family = ""
    for model in models:
        if model["family"] != family:
            family = model["family"]
            print(f"{family.replace('_', ' ')}:")
        marks = ("*" if model["departures"] else " ") + (" " if model["equivariant"] else "!")
        print(f"  {model['name']:{width}s} {_size(model):>11s} {marks} {model['equation']}")


def _size(model: Mapping[str, Any]) -> str:
    return "-" if model["parameters"] is None else f"{model['parameters']:,}"


def _in_full(model: Mapping[str, Any]) -> str:
    lines = [
        ("family", model["family"]),
        ("update", model["equation"]),
        ("reference", model["reference"]),
        ("parameters", _size(model)),
        ("equivariant", "yes" if model["equivariant"] else "no"),
        ("edge features", "yes" if model["takes_edge_attr"] else "no"),
        ("cost a layer", model["cost"]),
        ("source", model["source"]),
        *(("departure", text) for text in model["departures"]),
    ]
    wrapped = [
        textwrap.fill(text, 100, initial_indent=f"  {label:14s} ", subsequent_indent=" " * 17)
        for label, text in lines
    ]
    return "\n".join([model["name"], *wrapped])
