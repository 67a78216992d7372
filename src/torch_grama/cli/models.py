"""``grama models``: lists every model that can be built by word."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch_grama.cli.parser import Commands

if TYPE_CHECKING:
    from torch_grama.experiments.models import ModelFacts


def add_to(commands: Commands) -> None:
    """Adds ``models`` to a parser."""
    models = commands.add_parser(
        "models",
        help="list the models: equation, reference, size, cost",
        description="Lists every model that `grama train --model WORD` takes.",
        epilog="examples:\n  grama models\n  grama models gcn grama --num-layers 16\n"
        "  grama models --json > models.json",
    )
    add = models.add_argument
    add("names", nargs="*", metavar="WORD", help="only these, in full")
    add("--hidden-channels", type=int, default=64, metavar="N", help="width [64]")
    add("--num-layers", type=int, default=8, metavar="N", help="depth [8]")
    models.add_json()
    models.runs(_models, ValueError)


def _models(arguments: argparse.Namespace) -> int:
    from torch_grama.experiments.catalogue import canonical_name, find_model
    from torch_grama.experiments.models import list_models

    names = [canonical_name(name) for name in arguments.names]
    for name in names:
        find_model(name)
    models = list_models(arguments.hidden_channels, arguments.num_layers)
    chosen = [model for model in models if not names or model.name in names]
    if arguments.json:
        from dataclasses import asdict

        print(json.dumps([asdict(model) for model in chosen], indent=2, ensure_ascii=False))
    elif names:
        print("\n\n".join(_in_full(model) for model in chosen))
    else:
        _print_families(chosen)
        print(
            f"\nParameters at width {arguments.hidden_channels} and depth {arguments.num_layers}, "
            "64 features, 10 outputs.\n"
            "* departs from its paper, ! depends on the numbering of nodes; `grama models WORD` "
            "says how, with\nreference and cost, and `grama train --model WORD --help-all` lists "
            "its options."
        )
    return 0


def _print_families(models: Sequence[ModelFacts]) -> None:
    width = max(len(model.name) for model in models)
    family = ""
    for model in models:
        if model.family != family:
            family = model.family
            print(f"{family.replace('_', ' ')}:")
        size = "-" if model.parameters is None else f"{model.parameters:,}"
        marks = ("*" if model.departures else " ") + (" " if model.equivariant else "!")
        print(f"  {model.name:{width}s} {size:>11s} {marks} {model.equation}")


def _in_full(model: ModelFacts) -> str:
    lines = [
        ("family", model.family),
        ("update", model.equation),
        ("reference", model.reference),
        ("parameters", "-" if model.parameters is None else f"{model.parameters:,}"),
        ("equivariant", "yes" if model.equivariant else "no"),
        ("edge features", "yes" if model.takes_edge_attr else "no"),
        ("cost a layer", model.cost),
        ("source", model.source),
        *(("departure", text) for text in model.departures),
    ]
    wrapped = [
        textwrap.fill(text, 100, initial_indent=f"  {label:14s} ", subsequent_indent=" " * 17)
        for label, text in lines
    ]
    return "\n".join([model.name, *wrapped])
