"""``grama watch``: a page that follows the runs of a folder."""

from __future__ import annotations

import argparse
import errno
import sys
from pathlib import Path

from torch_grama.cli.errors import say
from torch_grama.cli.parser import Commands
from torch_grama.cli.process_end import raise_interrupts

PORT = 8765


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "watch",
        help="follow running and finished runs in a browser",
        description="Shows the runs of a folder in a browser, on this machine only. The list "
        "updates itself, and each run has its report. Stop it with Ctrl-C.",
        epilog="examples:\n  grama watch runs\n  grama watch runs --port 9000",
    )
    add = parser.add_argument
    runs, help = Path("runs"), "the folder that holds runs [runs]"
    add("folder", nargs="?", type=Path, default=runs, metavar="RUNS_DIR", help=help)
    add("--port", type=int, default=PORT, metavar="N", help=f"the port, 0 for any [{PORT}]")
    parser.runs(_watch)


def _watch(arguments: argparse.Namespace) -> int:
    import jinja2  # noqa: F401 - missing parts are told before the server starts
    import yaml  # noqa: F401

    from torch_grama.report.watch_server import WatchServer

    if not 0 <= arguments.port <= 65535:
        return say(f"Expected '--port' between 0 and 65535 (got {arguments.port})")
    try:
        server = WatchServer(arguments.folder, arguments.port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return say(
            f"port {arguments.port} is not free ({error.strerror}): name another with `--port`, or "
            f"0 for any"
        )
    with server:
        print(f"{server.address}  shows {server.runs.root}; end it with Ctrl-C", flush=True)
        raise_interrupts()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("ended", file=sys.stderr)
    return 0
