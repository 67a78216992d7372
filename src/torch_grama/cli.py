"""The ``grama`` command: parses, calls, prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from torch_grama import __version__
from torch_grama.data_cli import add_data_commands


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
    parser = argparse.ArgumentParser(
        prog="grama",
        description="GRAMA: adaptive graph autoregressive moving-average models.",
    )
    parser.add_argument("--version", action="version", version=f"grama {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_data_commands(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
