"""The ``grama`` command: parses, calls, prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from torch_grama import __version__
from torch_grama.cli.analyze import add_analyze_commands
from torch_grama.cli.data import add_data_commands
from torch_grama.cli.demo import add_demo_commands
from torch_grama.cli.models import add_models_commands
from torch_grama.cli.report import add_report_commands
from torch_grama.cli.reproduce import add_reproduce_commands
from torch_grama.cli.results import add_results_commands
from torch_grama.cli.run import add_run_commands
from torch_grama.cli.sweep import add_sweep_commands
from torch_grama.cli.train import add_train_commands
from torch_grama.cli.watch import add_watch_commands

_EPILOG = """\
from a folder with nodes.csv and edges.csv to predictions:
  grama data check my_folder
  grama train --data my_folder --run runs/first
  grama predict runs/first --out predictions.csv

`grama COMMAND --help` says more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the ``grama`` command.

    Args:
        argv (sequence of str, optional): Arguments without the program's name. (default: those of
            the process)

    Returns:
        The exit status.
    """
    # read as torch is loaded: a thread that waits soon leaves its core to whoever has work
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "run"):
        parser.print_help(sys.stdout)
        return 0
    status: int = arguments.run(arguments)
    return status


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of the ``grama`` command."""
    parser: argparse.ArgumentParser = CommandParser(
        prog="grama",
        description="GRAMA: adaptive graph autoregressive moving-average models.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"grama {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_demo_commands(subparsers)
    add_data_commands(subparsers)
    add_models_commands(subparsers)
    add_train_commands(subparsers)
    add_run_commands(subparsers)
    add_analyze_commands(subparsers)
    add_report_commands(subparsers)
    add_watch_commands(subparsers)
    add_sweep_commands(subparsers)
    add_reproduce_commands(subparsers)
    add_results_commands(subparsers)
    return parser


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaint about an unknown command lists the commands, nearest first.

    The parsers that its subparsers make are of the same class. One with the default
    ``keep_unknown`` hands over what it does not know as ``settings``.
    """

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if self.get_default("keep_unknown"):
            parsed.settings, unknown = unknown, []
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from torch_grama.nn.arguments import list_nearest_first

            raise argparse.ArgumentError(
                None,
                f"Expected a command, one of {list_nearest_first(str(value), action.choices)} "
                f"(got {value!r})",
            )
        super()._check_value(action, value)
