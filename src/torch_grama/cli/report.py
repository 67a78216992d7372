"""``grama report``: one page about one or several runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TypeVar

from torch_grama.cli.errors import guarded

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)

_EPILOG = """\
examples:
  grama report runs/first
  grama report runs/first runs/second --out comparison.html --title "Two backbones"

`grama analyze RUN` beforehand adds reach, dynamics and errors. The page needs no network and no
other file.
"""


def add_report_commands(subparsers: argparse._SubParsersAction[Parser]) -> None:
    r"""Adds ``report`` to a parser.

    Args:
        subparsers: What ``ArgumentParser.add_subparsers`` returned.
    """
    parser = subparsers.add_parser(
        "report",
        help="make one HTML page about one or several runs",
        description="Makes one self-contained HTML page: learning curves, comparison with the "
        "paper, how far information travels, stability, errors, settings.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page [report.html]",
    )
    parser.add_argument("--title", default="GRAMA report", help="its title [GRAMA report]")
    parser.set_defaults(run=guarded(_report))


def _report(arguments: argparse.Namespace) -> int:
    from torch_grama.report.page import PageError, write_page
    from torch_grama.runs.run_files import expand_folders, read_run_files
    from torch_grama.runs.run_folder import RunError
    from torch_grama.runs.words import format_bytes

    try:
        runs = [read_run_files(folder) for folder in expand_folders(arguments.folders)]
        path = write_page(runs, arguments.out, arguments.title)
    except (PageError, RunError) as error:
        print(f"grama: {str(error).rstrip('.')}.", file=sys.stderr)
        return 2
    for run in runs:
        for note in run.notes:
            print(f"grama: {run.name}: {note}", file=sys.stderr)
    print(f"{path}  {format_bytes(path.stat().st_size)}")
    return 0
