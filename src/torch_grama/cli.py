"""The ``grama`` command: parses, calls, prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from torch_grama import __version__
from torch_grama.data_cli import add_data_commands
from torch_grama.nn.choices import list_nearest_first


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the ``grama`` command.

    Args:
        argv (sequence of str, optional): Arguments without the program's name. (default: those of
            the process)

    Returns:
        The exit status.
    """
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
    )
    parser.add_argument("--version", action="version", version=f"grama {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_data_commands(subparsers)
    return parser


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaint about an unknown command lists the commands, nearest first.

    The parsers that its subparsers make are of the same class.
    """

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise argparse.ArgumentError(
                None,
                f"Expected a command, one of {list_nearest_first(str(value), action.choices)} "
                f"(got {value!r})",
            )
        super()._check_value(action, value)


if __name__ == "__main__":
    sys.exit(main())
