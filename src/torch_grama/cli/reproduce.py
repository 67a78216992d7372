"""``grama reproduce``: the experiments of the paper, run and shown."""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.cli.errors import say
from torch_grama.cli.parser import Commands, output_width, print_json, whole_number
from torch_grama.cli.process_end import raise_interrupts
from torch_grama.runs.words import format_count

if TYPE_CHECKING:
    from torch_grama.experiments.data_facts import DataFacts
    from torch_grama.report.comparison import Comparison
    from torch_grama.report.held_results import HeldNumber
    from torch_grama.reproduce.reproduction import ColumnFacts, Outcome, PlannedRun
    from torch_grama.reproduce.suite import Suite, SuiteData
    from torch_grama.search.sweep_result import SweepReport

RUNS = Path("runs/reproduce")
KEPT = "results"
_EPILOG = """\
examples:
  grama reproduce list
  grama reproduce transfer --budget smoke
  grama reproduce hetero --data minesweeper --models grama-gatedgcn gatedgcn --jobs 4
  grama reproduce transfer --budget smoke --data transfer-ring-10 --sweep
  grama reproduce hetero --show --format latex
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper and print its table with our numbers",
        description="Runs what is missing of an experiment of the paper, skips what is done, and "
        "prints the paper's table with our numbers. You can stop it at any time; run the "
        "same command to continue.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("name", metavar="NAME", help="an experiment, or `list` to name them all")
    add("--models", nargs="+", default=[], metavar="ROW", help="only these rows")
    add("--data", nargs="+", default=[], metavar="DATA", help="only these columns")
    add("--budget", metavar="NAME", help="smoke, short or full [smoke; the largest for --show]")
    seeds = "these folds, or seeds where there is one fold [as the budget says]"
    add("--seeds", nargs="+", type=whole_number(0), default=[], metavar="N", help=seeds)
    sweep = "tune each row first, on validation; the chosen settings are in its best.yaml"
    add("--sweep", action="store_true", help=sweep)
    space = "--sweep: what to search [that of the experiment]"
    add("--space", type=Path, metavar="FILE", help=space)
    add("--show", action="store_true", help="print the table and run nothing")
    add("--plan", action="store_true", help="list the runs and run nothing")
    formats = "text, markdown, latex, csv or html [text]"
    add("--format", default="text", metavar="NAME", help=formats)
    parser.add_count("--jobs", 1, 1, "runs in parallel")
    add("--ray", action="store_true", help="run on Ray on this machine")
    add("--ray-address", metavar="ADDRESS", help="run on this Ray cluster")
    add("--cpus-per-run", type=float, default=1, metavar="X", help="Ray: cores [1]")
    add("--gpus-per-run", type=float, default=0, metavar="X", help="Ray: GPUs [0]")
    parser.add_runs(RUNS)
    add("--results", metavar="DIR", help="folder of saved results [./results and the package's]")
    add("--configs", metavar="DIR", help="the configurations [of the package]")
    add("--out", type=Path, metavar="FILE", help="write the table to a file too")
    add("--picture", type=Path, metavar="FILE", help="pairs: draw them, as PNG or SVG")
    parser.add_json("list: print JSON")
    parser.add_quiet()
    parser.runs(_reproduce, ValueError)


def _reproduce(arguments: argparse.Namespace) -> int:
    from torch_grama.reproduce.suite import find_configs, find_results, find_suite, list_suites

    configs = find_configs(arguments.configs)
    if arguments.name == "list":
        return _list(list_suites(configs), arguments.json)
    from torch_grama.report import pair_table
    from torch_grama.report.comparison import FORMATS, to_text
    from torch_grama.reproduce.reproduction import look_at_column

    suite = find_suite(arguments.name, configs)
    formats = pair_table.FORMATS if suite.has_pairs else FORMATS
    if arguments.format not in formats:
        raise ValueError(
            f"Expected '--format' to be one of {', '.join(formats)} (got {arguments.format!r})"
        )
    if arguments.budget == "paper":
        arguments.budget = "full"
        say("the budget 'paper' is called 'full' now", 0)
    if arguments.budget:
        suite.check_budget(arguments.budget)
    if arguments.results:
        # a wrong name is told before hours of runs, not after them
        find_results(arguments.results)
    # a run of a budget shows the columns and numbers of that budget; --show alone shows all
    if suite.budgets and not arguments.show:
        arguments.budget = arguments.budget or "smoke"
    columns = suite.columns(arguments.data, arguments.budget)
    if suite.has_pairs and arguments.show:
        return show_pairs(suite, arguments)
    may_fetch = bool(suite.budgets) and not arguments.show
    facts = {entry.label: look_at_column(suite, entry, may_fetch) for entry in columns}
    for label, known in facts.items():
        if known.reason:
            say(f"{label} is left out: {known.reason}")
    status = 0 if arguments.show else _run(suite, arguments, facts)
    if status > 1 or arguments.plan:
        return status
    if suite.has_pairs:
        return show_pairs(suite, arguments) or status
    table = _table(suite, arguments, columns, facts)
    text = FORMATS[arguments.format](table)
    shown = to_text(table, output_width()) if arguments.format == "text" else text
    if arguments.format == "html" and arguments.out:
        shown = f"{arguments.out}\n"
    _print(shown, text, arguments.out)
    return status


def _print(shown: str, text: str, out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    print(shown, end="")


def _list(suites: Sequence[Suite], as_json: bool) -> int:
    if as_json:
        facts = [
            {
                "name": suite.name,
                "title": suite.title,
                "about": suite.about,
                "data": [entry.label for entry in suite.data],
                "models": list(suite.models),
                "budgets": {name: budget.runs for name, budget in suite.budgets.items()},
            }
            for suite in suites
        ]
        print_json(facts, 2)
        return 0
    width = 2 + max(len(suite.name) for suite in suites)
    for suite in suites:
        lines = textwrap.wrap(suite.about, output_width() - width) or [""]
        print(f"{suite.name:{width}}" + f"\n{'':{width}}".join(lines))
    return 0


def _run(suite: Suite, arguments: argparse.Namespace, facts: Mapping[str, ColumnFacts]) -> int:
    """Does what is missing, and returns the exit status."""
    from torch_grama.reproduce.reproduction import plan_runs

    if not suite.budgets:
        return _run_other(suite, Path(arguments.results or arguments.runs).absolute())
    absent = [label for label, known in facts.items() if known.absent]
    folds = {label: known.num_folds for label, known in facts.items() if not known.absent}
    if suite.has_pairs:
        return run_pairs(suite, arguments, absent, folds)
    chosen = (suite, arguments.budget, arguments.runs, arguments.models, arguments.data)
    runs = plan_runs(*chosen, arguments.seeds, absent, folds)
    if arguments.sweep and not arguments.plan:
        _tune(suite, runs, arguments)
        runs = plan_runs(*chosen, arguments.seeds, absent, folds)  # with what was chosen
    return _run_missing(suite.title, runs, arguments)


def run_pairs(
    suite: Suite,
    arguments: argparse.Namespace,
    absent: Collection[str],
    folds: Mapping[str, int],
    known: Mapping[str, DataFacts] | None = None,
) -> int:
    """Tunes both sides of every pair with as many settings each, then runs what they chose."""
    from torch_grama.reproduce.pairs import choose_best, match_rows, plan_search
    from torch_grama.reproduce.reproduction import plan_runs
    from torch_grama.runs.run_folder import RunError

    chosen = (suite, arguments.budget, arguments.runs, arguments.models, arguments.data)
    rows = match_rows(*chosen, absent, folds, known)
    for row in rows:
        asked = row.column.tuning.draws if row.column.tuning else 1
        if 1 < len(row.candidates) < asked and not arguments.quiet:
            tried = f"{len(row.candidates)} settings are tried, not {asked}"
            say(f"{row.column.label} {row.row}: {tried}; there are no more in its space")
    searches = [run for row in rows for run in plan_search(row)]
    status = _run_missing(f"{suite.title}, tuning", searches, arguments) if searches else 0
    if status > 1:
        return status
    untuned = set()
    for row in [] if arguments.plan else rows:
        try:
            choose_best(row)
        except RunError as error:
            say(error)
            status = 1
            untuned.add(row.place)
    runs = plan_runs(*chosen, arguments.seeds, absent, folds)
    runs = [run for run in runs if run.folder.parent not in untuned]
    return _run_missing(suite.title, runs, arguments) or status


def _run_missing(title: str, runs: Sequence[PlannedRun], arguments: argparse.Namespace) -> int:
    from torch_grama.experiments.run import RunInterrupted
    from torch_grama.reproduce.demo_runs import progress_board

    missing = [run for run in runs if not run.is_finished]
    if arguments.plan:
        for run in runs:
            print(f"{'to do' if run in missing else 'done '}  {run.name}  {run.folder}")
        return 0

    if not arguments.quiet:
        count = f"{format_count(len(runs), 'run')}, {len(runs) - len(missing)} of them done"
        print(f"{title}: {count}", file=sys.stderr)
    raise_interrupts()
    # runs in this process have bars of their own
    is_beside = arguments.jobs > 1 or arguments.ray or arguments.ray_address
    has_board = is_beside and not arguments.quiet
    board = progress_board(missing, sys.stderr, interval=2.0) if has_board else nullcontext()
    try:
        with board:
            failures = tell_outcomes(_outcomes(missing, arguments), len(missing), arguments.quiet)
    except (KeyboardInterrupt, RunInterrupted) as stop:
        return say("interrupted; the same command goes on", getattr(stop, "exit_code", 130))
    return 1 if failures else 0


def tell_outcomes(outcomes: Iterable[Outcome], count: int, quiet: bool) -> list[str]:
    """Prints a line for each run that ends, and returns one for each that failed."""
    failures = []
    for number, (run, outcome) in enumerate(outcomes, start=1):
        if isinstance(outcome, Exception):
            words = f"failed: {str(outcome) or type(outcome).__name__}"
            failures.append(f"{run.name} {words}")
        else:
            score = outcome.val if outcome.test is None else outcome.test
            words = f"{outcome.metric} {score:.5g} ({outcome.seconds:.0f} s)"
        if not quiet:
            print(f"[{number}/{count}] {run.name}: {words}", file=sys.stderr)
    return failures


def _tune(suite: Suite, runs: Sequence[PlannedRun], arguments: argparse.Namespace) -> None:
    from torch_grama.search.space import Repeat, read_space
    from torch_grama.search.tune import tune_row

    path = arguments.space or suite.folder.parent / "spaces" / f"{suite.space}.yaml"
    space = read_space(path)
    rows: dict[Path, list[PlannedRun]] = {}
    for run in runs:
        rows.setdefault(run.folder.parent, []).append(run)
    report: SweepReport = "quiet" if arguments.quiet else "auto"
    for folder, own in rows.items():
        folds, seeds = {run.fold for run in own}, {run.seed for run in own}
        repeat = Repeat(tuple(sorted(folds)), tuple(sorted(seeds)))
        best = tune_row(folder, own[0].settings, repeat, space, arguments.ray_address, report)
        if not arguments.quiet:
            found = best or f"nothing of {path} applies"
            print(f"{own[0].data} {own[0].model}: {found}", file=sys.stderr)


def _outcomes(missing: Sequence[PlannedRun], arguments: argparse.Namespace) -> Iterator[Outcome]:
    from torch_grama.reproduce.reproduction import run_in_processes, run_one_by_one, run_planned

    if arguments.ray or arguments.ray_address:
        from torch_grama.search.ray_session import run_on_ray

        outcomes = run_on_ray(
            [(run_planned, (run,)) for run in missing],
            arguments.ray_address,
            arguments.cpus_per_run,
            arguments.gpus_per_run,
        )
        return ((missing[place], outcome) for place, outcome in outcomes)
    if arguments.jobs > 1:
        return run_in_processes(missing, arguments.jobs)
    return run_one_by_one(missing, "quiet" if arguments.quiet else "auto")


def _run_other(suite: Suite, results: Path) -> int:
    """Experiments that are not made of training runs."""
    if suite.is_summary:
        names = sorted({entry.suite for entry in suite.data})
        return say(f"taken from {', '.join(names)}; reproduce these", 0)
    from torch_grama.reproduce.suite import CHECKOUT

    if not (CHECKOUT / "benchmarks" / "runtime.py").is_file():
        return say(
            "times are measured by `python -m benchmarks.runtime` in a checkout of torch-grama", 0
        )
    command = [sys.executable, "-m", "benchmarks.runtime", "--out", str(results / "runtime")]
    return 1 if subprocess.run(command, cwd=CHECKOUT).returncode else 0


def _table(
    suite: Suite,
    arguments: argparse.Namespace,
    entries: Sequence[SuiteData],
    facts: Mapping[str, ColumnFacts],
) -> Comparison:
    from torch_grama.report.comparison import Column, compare
    from torch_grama.reproduce.reproduction import gather_references

    held = gather_numbers(arguments.runs, arguments.results)
    columns = [
        Column(entry.label, entry.metric, facts[entry.label].absent, suite.count_runs(entry))
        for entry in entries
    ]
    if arguments.show:
        _check_rows(suite, arguments.models, held)
    return compare(
        suite.name,
        suite.title,
        columns,
        suite.tables,
        held,
        arguments.models or suite.models,
        {entry.label: entry.suite for entry in entries if entry.suite},
        gather_references(facts),
        arguments.budget,
        suite.notes,
        arguments.models or (suite.models if suite.is_summary else ()),
    )


def show_pairs(suite: Suite, arguments: argparse.Namespace) -> int:
    """Prints both sides of every pair, and draws them if a picture is asked for."""
    from torch_grama.report.pair_table import FORMATS, draw_pairs, pair_up, to_text

    held = gather_numbers(arguments.runs, arguments.results)
    budgets = [arguments.budget] if arguments.budget else list(suite.budgets)
    # the largest budget of which there is a number
    held = [number for number in held if number.suite == suite.name and number.budget in budgets]
    largest = max((budgets.index(number.budget) for number in held), default=0)
    pairs = suite.pairs(arguments.data)
    lines = pair_up(pairs, [number for number in held if number.budget == budgets[largest]])
    if arguments.models:
        lines = [line for line in lines if {line.backbone, line.grama} & set(arguments.models)]
    text = FORMATS[arguments.format](lines)
    shown = to_text(lines, output_width()) if arguments.format == "text" else text
    _print(shown, text, arguments.out)
    if arguments.picture and any(line.runs for line in lines):
        draw_pairs(lines, arguments.picture)
        say(f"drawn in '{arguments.picture}'", 0)
    return 0


def _check_rows(suite: Suite, models: Sequence[str], held: Sequence[HeldNumber]) -> None:
    """Refuses rows that neither the paper nor a result has and that name no model."""
    from torch_grama.experiments.catalogue import MODELS
    from torch_grama.report.held_results import read_paper_numbers
    from torch_grama.reproduce.reproduction import settings_of_row

    there = {number.model for table in suite.tables for number in read_paper_numbers(table)}
    there |= {number.model for number in held}
    for model in models:
        if model not in there:
            settings_of_row(model, MODELS)


def gather_numbers(runs: Path, results: str | None) -> list[HeldNumber]:
    r"""Gathers the numbers of local runs and those that are kept."""
    from torch_grama.report.held_results import gather, read_runtime
    from torch_grama.reproduce.suite import find_results
    from torch_grama.runs.run_folder import RunError

    own = [Path(KEPT)] if Path(KEPT).is_dir() else []
    folders = [runs, find_results(results)] if results else [runs, *own, find_results()]
    held, faults = gather(folders)
    for fault in faults:
        say(fault)
    for folder in folders:
        for path in sorted((folder / "runtime").glob("*.json")):
            try:
                held += read_runtime(path)
            except RunError as error:
                say(error)
    return held
