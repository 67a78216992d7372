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

from torch_grama.cli.errors import say
from torch_grama.cli.parser import Commands, whole_number
from torch_grama.cli.process_end import raise_interrupts
from torch_grama.runs.words import format_count

if TYPE_CHECKING:
    from torch_grama.report.error_table import DemoText, ErrorTable
    from torch_grama.reproduce.reproduction import PlannedRun

OUT = Path("runs/demo")
PICTURE = "error-by-distance.png"
PAGE = "demo.html"
MOST_JOBS = 4
_GRAMA, _BACKBONE, _GPS = "GRAMA(GCN)", "GCN", "GPS(GCN)"
_TITLE = "Can a model carry a value along a line?"
_LEAD = (
    "A random value stands at one end of a line of nodes and must appear at the other end. Every "
    "node in between holds a random value too, and the target's own says nothing about the answer: "
    "a model that does not carry the value can do no better than a constant, whose error is about "
    "1/12 = 0.083."
)
_READING = (
    "Messages pass along the edges, one hop per layer or recurrence. The training is short; what a "
    "model does not learn in it, it may learn in a longer one."
)
_READING_OF_GPS = (
    "GPS also attends to all pairs of nodes at once: distance does not matter to it, at a cost "
    "that grows with the square of the nodes."
)
_TRIVIAL = (
    "The rows in grey look at no neighbour: the mean of the training targets, and their mean by "
    "the degree of the node."
)
_COMMANDS = (
    "grama reproduce list                        # the experiments of the paper",
    "grama reproduce transfer --budget smoke     # this task on lines, rings and crossed rings",
    "grama train --data my_folder --run runs/my  # a model for your own graphs",
)


def add_to(commands: Commands) -> None:
    """Adds ``demo`` to a parser."""
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
    add(
        "--jobs",
        type=whole_number(1),
        metavar="N",
        help=f"runs in parallel [the cores, at most {MOST_JOBS}]",
    )
    parser.runs(_demo)


def _demo(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    jobs = arguments.jobs or min(MOST_JOBS, os.cpu_count() or 1)
    if jobs > 1:
        from torch_grama.reproduce.worker_processes import prepare_workers

        prepare_workers()  # loads beside what follows
    from torch_grama.report.error_table import (
        build_demo_page,
        build_error_table,
        draw_errors,
        format_error_table,
    )
    from torch_grama.report.held_results import gather
    from torch_grama.reproduce.demo_runs import LABELS, demo_references, distance_of, plan_demo

    root = arguments.out / "runs"
    runs = plan_demo(root, arguments.quick, arguments.seed, arguments.all)
    failures = _train(runs, LABELS, jobs)
    distances = {run.data: distance_of(run.data) for run in runs}
    places = {run.folder for run in runs}
    held = [n for n in gather([root])[0] if any(run.path.parent in places for run in n.runs)]
    references = demo_references(list(distances))
    table = build_error_table(held, distances, LABELS, references, [arguments.seed])
    seconds = time.perf_counter() - start
    text = _words(table, runs, arguments, seconds)
    draw_errors(table, arguments.out / PICTURE, text.title, _GRAMA)
    page = build_demo_page(table, arguments.out / PICTURE, text, arguments.out)
    (arguments.out / PAGE).write_text(page, encoding="utf-8")
    print(format_error_table(table), end="")
    print("* lowest of its column\n")
    print(textwrap.fill(f"{text.finding} {text.reading}", 88))
    print(f"{arguments.out / PICTURE}\n{arguments.out / PAGE}  ({seconds:.0f} s)")
    return 1 if failures else 0


def _train(runs: Sequence[PlannedRun], labels: dict[str, str], jobs: int) -> int:
    """Does what is missing, with progress bars on a terminal and lines elsewhere."""
    from torch_grama.reproduce.demo_runs import progress_board
    from torch_grama.reproduce.reproduction import run_in_processes, run_one_by_one

    missing = [run for run in runs if not run.is_finished]
    print(
        f"{format_count(len(runs), 'run')}, {len(runs) - len(missing)} of them done",
        file=sys.stderr,
    )
    failures = []
    raise_interrupts()
    outcomes = run_in_processes(missing, jobs) if jobs > 1 else run_one_by_one(missing, "json")
    with progress_board(runs, sys.stderr, labels.__getitem__):
        for count, (run, outcome) in enumerate(outcomes, start=1):
            if isinstance(outcome, Exception):
                failures.append(f"{run.name} failed: {outcome}")
            elif not sys.stderr.isatty():
                error = f"error {outcome.test:.2e}, {outcome.seconds:.0f} s"
                print(f"[{count}/{len(missing)}] {run.name}: {error}", file=sys.stderr)
    for line in failures:  # below the bars
        say(line)
    return len(failures)


def _words(
    table: ErrorTable, runs: Sequence[PlannedRun], arguments: argparse.Namespace, seconds: float
) -> DemoText:
    from torch_grama import __version__
    from torch_grama.report.error_table import DemoText

    far = table.distances[-1]
    ratio = table.ratio(_BACKBONE, _GRAMA, far)
    if ratio is None:
        finding = f"{_GRAMA} or its backbone has no result at {far} hops."
    elif arguments.quick:
        finding = "A trial of two epochs: these numbers say nothing about the models."
    elif ratio > 1:
        finding = f"At {far} hops the error of {_GRAMA} is {ratio:.0f} times below that of GCN."
    else:
        finding = f"At {far} hops the error of {_GRAMA} is not below that of GCN."
    settings = runs[0].settings
    depths = sorted({int(str(run.settings["model.num_layers"])) for run in runs})
    has_gps = any(row.label == _GPS for row in table.models)
    hardware = {run.hardware for row in table.models for own in row.runs.values() for run in own}
    return DemoText(
        _TITLE,
        _LEAD,
        finding,
        f"{_READING} {_READING_OF_GPS}" if has_gps else _READING,
        _TRIVIAL,
        {
            "graphs": "1000 to train, 100 to validate, 100 to test, for each distance",
            "width": str(settings["model.hidden_channels"]),
            "depth": f"{', '.join(map(str, depths[-len(table.distances) :]))} for distances "
            f"{', '.join(map(str, table.distances))}"
            + (", all models but GPS, which has 3 layers" if has_gps else ""),
            "GRAMA": "one block, gain starting at 1, coefficients normalised by their l1 norm",
            "training": f"{settings['trainer.max_epochs']} epochs of "
            f"{settings['trainer.batch_size']} graphs per step, Adam, one cycle up to "
            f"{settings['optimizer.lr']}, gradient norm at most "
            f"{settings['trainer.gradient_clip']}",
            "seed": str(arguments.seed),
            "hardware": ", ".join(sorted(hardware)),
        },
        _COMMANDS,
        f"torch-grama {__version__}, `grama demo`, {seconds:.0f} s.",
    )
