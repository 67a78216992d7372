"""``grama pairs``: what GRAMA gains around a backbone on one data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_grama.cli.parser import Commands, given_settings
from torch_grama.cli.reproduce import run_pairs, show_pairs

RUNS = Path("runs/pairs")
_EPILOG = """\
examples:
  grama pairs --data my_folder
  grama pairs --data my_folder --backbones gcn gatedgcn --jobs 2
  grama pairs --data cora --parameters 200000 --trainer.max_epochs 200

Settings of `grama train`, such as --data.options.label or --trainer.patience, hold for both sides
of every pair.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "pairs",
        help="see what GRAMA gains around a backbone on your data",
        usage="grama pairs --data NAME_OR_PATH [options] [--SECTION.SETTING VALUE]",
        description="Trains a graph network alone, and with GRAMA around it, with the same number "
        "of parameters, of settings tried and of epochs. Prints the gain with its standard error "
        "and draws a picture. You can stop it at any time; run the same command to continue.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    names = (
        "gcn, gcn-root, gcnii, gatedgcn, gin, gps, neighbor-sum [gcn gatedgcn, gps on small graphs]"
    )
    add("--backbones", nargs="+", default=[], metavar="NAME", help=names)
    parser.add_count("--parameters", 1000, 50_000, "size of every model, within 5 %%")
    parser.add_count("--draws", 1, 4, "settings to try")
    parser.add_count("--repeats", 1, 3, "runs of each side")
    parser.add_count("--jobs", 1, 1, "runs in parallel")
    parser.add_runs(RUNS)
    add("--picture", type=Path, metavar="FILE", help="the picture [DIR/DATA.png]")
    parser.add_quiet()
    parser.add_options()
    # what `grama reproduce` can be asked for beside these
    parser.set_defaults(budget="own", format="text", models=[], data=[], seeds=[])
    parser.set_defaults(plan=False, ray=False, ray_address=None, out=None, keep_unknown=True)
    parser.runs(_pairs, ValueError)


def _pairs(arguments: argparse.Namespace) -> int:
    from torch_grama.experiments.settings import check_settings
    from torch_grama.reproduce.pairs import check_request, suite_of

    settings = check_settings(("on the command line", given_settings(arguments)))
    if "data.name" not in settings:
        raise ValueError("Expected a data set or a path (got none); name it with `--data`")
    suite, facts, num_folds, request, values = suite_of(
        settings,
        arguments.backbones,
        parameters=arguments.parameters,
        draws=arguments.draws,
        repeats=arguments.repeats,
    )
    label = suite.data[0].label
    check_request(arguments.runs / suite.name / arguments.budget / label, request, values)
    arguments.results = str(arguments.runs)
    arguments.picture = arguments.picture or arguments.runs / f"{label}.png"
    status = run_pairs(suite, arguments, (), {label: num_folds}, {label: facts})
    return show_pairs(suite, arguments) or status if status < 2 else status
