"""``grama demo``: models carry a value over several distances, in a picture and a page."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama import __version__
from torch_grama.cli.errors import say
from torch_grama.cli.parser import Commands, whole_number
from torch_grama.cli.process_end import raise_interrupts
from torch_grama.cli.reproduce import tell_outcomes
from torch_grama.runs.words import format_count

if TYPE_CHECKING:
    from torch_grama.report.error_table import ErrorTable
    from torch_grama.reproduce.reproduction import PlannedRun

OUT = Path("runs/demo")
PICTURE = "error-by-distance.png"
PAGE = "demo.html"
MOST_JOBS = 4
_GRAMA, _BACKBONE, _GPS = "GRAMA(GCN)", "GCN", "GPS(GCN)"
_READING = (
    "Messages pass along the edges, one hop per layer or recurrence. The training is short; what a "
    "model does not learn in it, it may learn in a longer one."
)
_READING_OF_GPS = (
    " GPS also attends to all pairs of nodes at once: distance does not matter to it, at a cost "
    "that grows with the square of the nodes."
)


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="compare GRAMA with its backbone on a long-distance task, in about a minute",
        description="Trains GCN, and GRAMA around it, to carry a random value along lines of "
        f"growing length, prints their errors, draws them ({PICTURE}) and writes a page ({PAGE}). "
        "You can stop it at any time; run the same command to continue.",
    )
    add = parser.add_argument
    add("--out", type=Path, default=OUT, metavar="PATH", help=f"picture, page and runs [{OUT}]")
    add("--all", action="store_true", help="also train A-DGN and GPS")
    add("--seed", type=whole_number(0), default=0, metavar="N", help="seed of all runs [0]")
    add(
        "--quick", action="store_true", help="two epochs on short distances, to check that it works"
    )
    jobs = f"runs in parallel [the cores, at most {MOST_JOBS}]"
    add("--jobs", type=whole_number(1), metavar="N", help=jobs)
    parser.runs(_demo)


def _demo(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    jobs = arguments.jobs or min(MOST_JOBS, os.cpu_count() or 1)
    if jobs > 1:
        from torch_grama.reproduce.worker_processes import prepare_workers

        prepare_workers()  # loads beside what follows
    from torch_grama.report.error_table import (
        TITLE,
        build_demo_page,
        build_error_table,
        draw_errors,
        format_error_table,
    )
    from torch_grama.report.held_results import gather
    from torch_grama.reproduce.demo_runs import LABELS, demo_references, distance_of, plan_demo

    root = arguments.out / "runs"
    runs = plan_demo(root, arguments.quick, arguments.seed, arguments.all)
    failures = _train(runs, jobs)
    distances = {run.data: distance_of(run.data) for run in runs}
    places = {run.folder for run in runs}
    held = [n for n in gather([root])[0] if any(run.path.parent in places for run in n.runs)]
    references = demo_references(list(distances))
    table = build_error_table(held, distances, LABELS, references, [arguments.seed])
    seconds = time.perf_counter() - start
    finding = _find(table, arguments.quick)
    has_gps = any(row.label == _GPS for row in table.models)
    reading = f"{_READING}{_READING_OF_GPS if has_gps else ''}"
    settings = _describe(table, runs, arguments.seed, has_gps)
    picture, page = arguments.out / PICTURE, arguments.out / PAGE
    draw_errors(table, picture, TITLE, _GRAMA)
    footer = f"torch-grama {__version__}, `grama demo`, {seconds:.0f} s."
    html = build_demo_page(table, picture, arguments.out, finding, reading, settings, footer)
    page.write_text(html, encoding="utf-8")
    print(format_error_table(table), end="")
    print("* lowest of its column\n")
    print(textwrap.fill(f"{finding} {reading}", 88))
    print(f"{picture}\n{page}  ({seconds:.0f} s)")
    return 1 if failures else 0


def _train(runs: Sequence[PlannedRun], jobs: int) -> list[str]:
    """Does what is missing, with progress bars on a terminal and lines elsewhere."""
    from torch_grama.reproduce.demo_runs import LABELS, progress_board
    from torch_grama.reproduce.reproduction import run_in_processes, run_one_by_one

    missing = [run for run in runs if not run.is_finished]
    done = len(runs) - len(missing)
    print(f"{format_count(len(runs), 'run')}, {done} of them done", file=sys.stderr)
    raise_interrupts()
    outcomes = run_in_processes(missing, jobs) if jobs > 1 else run_one_by_one(missing, "json")
    with progress_board(runs, sys.stderr, LABELS.__getitem__):
        failures = tell_outcomes(outcomes, len(missing), quiet=sys.stderr.isatty())
    for line in failures:  # below the bars
        say(line)
    return failures


def _find(table: ErrorTable, quick: bool) -> str:
    far = table.distances[-1]
    ratio = table.ratio(_BACKBONE, _GRAMA, far)
    if ratio is None:
        return f"{_GRAMA} or its backbone has no result at {far} hops."
    if quick:
        return "A trial of two epochs: these numbers say nothing about the models."
    if ratio > 1:
        return f"At {far} hops the error of {_GRAMA} is {ratio:.0f} times below that of GCN."
    return f"At {far} hops the error of {_GRAMA} is not below that of GCN."


def _describe(
    table: ErrorTable, runs: Sequence[PlannedRun], seed: int, has_gps: bool
) -> dict[str, str]:
    """What all runs have in common, by name."""
    settings = runs[0].settings
    depths = sorted({int(str(run.settings["model.num_layers"])) for run in runs})
    hardware = {run.hardware for row in table.models for own in row.runs.values() for run in own}
    return {
        "graphs": "1000 to train, 100 to validate, 100 to test, for each distance",
        "width": str(settings["model.hidden_channels"]),
        "depth": f"{', '.join(map(str, depths[-len(table.distances) :]))} for distances "
        f"{', '.join(map(str, table.distances))}"
        + (", all models but GPS, which has 3 layers" if has_gps else ""),
        "GRAMA": "one block, gain starting at 1, coefficients normalised by their l1 norm",
        "training": f"{settings['trainer.max_epochs']} epochs of {settings['trainer.batch_size']} "
        f"graphs per step, Adam, one cycle up to {settings['optimizer.lr']}, gradient norm at most "
        f"{settings['trainer.gradient_clip']}",
        "seed": str(seed),
        "hardware": ", ".join(sorted(hardware)),
    }
