"""The ``grama`` command: one file per command, which parses, calls and prints."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from torch_grama import __version__
from torch_grama.cli.process_end import prompt_end, quiet_pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torch_grama.cli.parser import CommandParser

_COMMANDS = (
    *("demo", "data", "models", "train", "run", "analyze", "report", "watch", "pairs", "sweep"),
    *("reproduce", "results"),
)
_EPILOG = """\
from a folder with nodes.csv and edges.csv to predictions:
  grama data check my_folder
  grama train --data my_folder --run runs/first
  grama predict runs/first --out predictions.csv

Run `grama COMMAND --help` for details.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the ``grama`` command."""
    # read as torch is loaded: a thread that waits soon leaves its core to whoever has work
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # loading makes many objects and little garbage, and the last collection takes over a second
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    with prompt_end(), quiet_pipe():
        parser = build_parser()
        arguments = parser.parse_args(argv)
        if not hasattr(arguments, "run"):
            parser.print_help(sys.stdout)
            return 0
        status: int = arguments.run(arguments)
        return status


def build_parser() -> CommandParser:
    # here, so that a signal finds its handlers set while all this is loaded
    from torch_grama.cli.parser import CommandParser

    parser = CommandParser(
        prog="grama",
        description="GRAMA: adaptive graph autoregressive moving-average models.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"grama {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        import_module(f"torch_grama.cli.{command}").add_to(commands)
    return parser
