"""``grama results``: every number that is held, and the table in the README."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch_grama
from torch_grama.cli.parser import Commands, output_width, print_json, print_table
from torch_grama.cli.reproduce import KEPT, RUNS, gather_numbers
from torch_grama.runs.words import fit_columns, format_count, name_nearest

if TYPE_CHECKING:
    from torch_grama.report.held_results import HeldNumber

_HEAD = (
    *("suite", "budget", "data", "model", "metric", "mean", "deviation", "runs", "paper"),
    *("parameters", "version", "hardware", "config"),
)


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "results",
        help="list saved results",
        description="Lists every number of finished experiments: suite, data, model, metric, mean "
        "and standard deviation over runs, budget, parameters, hardware, configuration, and the "
        "paper's value.",
    )
    parser.add_json()
    add = parser.add_argument
    parser.add_runs(RUNS)
    add("--results", metavar="DIR", help="folder of saved results [./results and the package's]")
    add("--suite", nargs="+", default=[], metavar="NAME", help="only these experiments")
    add("--data", nargs="+", default=[], metavar="NAME", help="only these data sets")
    add("--model", nargs="+", default=[], metavar="NAME", help="only these models")
    add("--keep", action="store_true", help="save the results of finished runs")
    add("--readme", type=Path, metavar="FILE", help="renew the table in this file, and its picture")
    parser.runs(_results, ValueError)


def _results(arguments: argparse.Namespace) -> int:
    from torch_grama.report.held_results import OLD_MARK, explain_old

    if arguments.runs != RUNS and not arguments.runs.is_dir():
        raise ValueError(f"Expected a folder of runs at '{arguments.runs}' (got none)")
    if arguments.keep:
        _keep(arguments.runs, Path(arguments.results or KEPT))
    if arguments.readme:
        return _renew(arguments.readme, arguments.results)
    held = _choose(gather_numbers(arguments.runs, arguments.results), arguments)
    facts = [_facts(number) for number in held]
    if arguments.json:
        print_json(facts, 2)
        return 0
    if not facts:
        print("No results yet: `grama reproduce transfer --budget smoke` makes some.")
        return 0
    rows: list[tuple[str, ...]] = [_HEAD]
    for fact in facts:
        texts = {key: _word(fact[key]) for key in _HEAD}
        texts["mean"] += f" {OLD_MARK}" if fact["is_old"] else ""
        rows.append(tuple(texts.values()))
    fitting = fit_columns(rows, output_width())
    print_table(fitting)
    if left_out := _HEAD[len(fitting[0]) :]:
        print(f"\nLeft out to fit the width: {', '.join(left_out)}; `--json` has all.")
    if old := explain_old(held):
        print("\n" + textwrap.fill(old, output_width()))
    return 0


def _choose(held: Sequence[HeldNumber], arguments: argparse.Namespace) -> list[HeldNumber]:
    for name in ("suite", "data", "model"):
        wanted = getattr(arguments, name)
        there = sorted({getattr(number, name) for number in held})
        for word in wanted:
            if word not in there:
                near = name_nearest(word, there, 5) or "none"
                raise ValueError(f"Expected '--{name}' to be one of {near} (got {word!r})")
        held = [number for number in held if not wanted or getattr(number, name) in wanted]
    return list(held)


def _facts(number: HeldNumber) -> dict[str, object]:
    from torch_grama.report.held_results import find_paper_number

    printed = find_paper_number(number.suite, number.data, number.model, number.metric)
    run = number.runs[0]
    config = run.path.with_name("config.yaml")
    source = config if config.is_file() else run.path
    names = ("suite", "budget", "data", "model", "metric", "mean", "deviation", "validation")
    return {
        **{name: getattr(number, name) for name in names},
        "runs": len(number.runs),
        # measured times have neither; their file states the setting of each row
        "parameters": run.parameters or None,
        "hardware": run.hardware,
        "version": number.old_version or run.version or None,
        "is_old": bool(number.old_version),
        "config": _shorten(source),
        "paper": printed.mean if printed else None,
        "paper_deviation": printed.deviation if printed else None,
    }


def _shorten(path: Path) -> str:
    """As seen from the current folder, or from the package."""
    for base in (Path.cwd(), Path(torch_grama.__file__).parent):
        if path.resolve().is_relative_to(base):
            return str(path.resolve().relative_to(base))
    return str(path)


def _word(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _keep(runs: Path, results: Path) -> None:
    """Copies result and configuration of each finished run to the folder of kept numbers."""
    from torch_grama.report.held_results import read_run
    from torch_grama.runs.run_folder import RunError

    count = 0
    for path in sorted(runs.glob("*/*/*/*/*/result.json")):
        try:
            read_run(path)
        except RunError as error:
            print(f"grama: not kept: {error}", file=sys.stderr)
            continue
        place = results / path.parent.relative_to(runs).with_suffix(".json")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        config = path.with_name("config.yaml")
        if config.is_file():
            shutil.copyfile(config, place.with_name("config.yaml"))
        count += 1
    print(f"{format_count(count, 'result')} kept in {results}", file=sys.stderr)


def _renew(readme: Path, results: str | None) -> int:
    from torch_grama.report.held_results import gather
    from torch_grama.report.pair_table import SUITE, draw_pairs, kept_pairs, renew_table
    from torch_grama.reproduce.suite import find_configs, find_results, find_suite

    place = find_results(results)
    held, _ = gather([place])
    text = readme.read_text(encoding="utf-8")
    pairs = find_suite(SUITE, find_configs(None)).pairs()
    readme.write_text(renew_table(text, held, pairs), encoding="utf-8")
    lines = kept_pairs(pairs, held)
    if any(line.runs for line in lines):
        draw_pairs(lines, place / SUITE / "pairs.svg")
    print(f"the table in {readme} is up to date", file=sys.stderr)
    return 0
