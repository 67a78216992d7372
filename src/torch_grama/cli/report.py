"""``grama report``: one page about one or several runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_grama.cli.parser import Commands

_EPILOG = """\
examples:
  grama report runs/first
  grama report runs/first runs/second --out comparison.html --title "Two backbones"

Run `grama analyze RUN` first to add reach, dynamics and errors. The page needs no network and no
other file.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "report",
        help="make one HTML page about one or several runs",
        description="Makes one self-contained HTML page: learning curves, comparison with other "
        "runs and published numbers, how far information travels, stability, errors, settings.",
        epilog=_EPILOG,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_file("--out", "report.html", "the page")
    parser.add_argument("--title", default="GRAMA report", help="its title [GRAMA report]")
    parser.runs(_report)


def _report(arguments: argparse.Namespace) -> int:
    from torch_grama.report.page import write_page
    from torch_grama.runs.run_files import expand_folders, read_run_files
    from torch_grama.runs.words import format_bytes

    runs = [read_run_files(folder) for folder in expand_folders(arguments.folders)]
    path = write_page(runs, arguments.out, arguments.title)
    for run in runs:
        for note in run.notes:
            print(f"grama: {run.name}: {note}", file=sys.stderr)
    print(f"{path}  {format_bytes(path.stat().st_size)}")
    return 0
