"""``grama results``: every number that is held, and the table in the README."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.cli.parser import Commands
from torch_grama.cli.reproduce import RUNS, gather_numbers
from torch_grama.cli.tables import print_table

if TYPE_CHECKING:
    from torch_grama.report.held_results import HeldNumber


def add_to(commands: Commands) -> None:
    """Adds ``results`` to a parser."""
    parser = commands.add_parser(
        "results",
        help="list every number that is held",
        description="Lists every number of finished experiments: suite, data, model, metric, mean "
        "and deviation over runs, budget, parameters, hardware, configuration, and the paper's "
        "value.",
    )
    parser.add_json()
    add = parser.add_argument
    add("--runs", type=Path, default=RUNS, metavar="DIR", help=f"the run folders [{RUNS}]")
    add("--results", metavar="DIR", help="numbers that are kept [results]")
    add("--keep", action="store_true", help="copy the results of finished runs to the kept numbers")
    add("--readme", type=Path, metavar="FILE", help="renew the table in this file")
    parser.runs(_results, ValueError)


def _results(arguments: argparse.Namespace) -> int:
    from torch_grama.report.held_results import explain_old

    if arguments.runs != RUNS and not arguments.runs.is_dir():
        raise ValueError(f"Expected a folder of runs at '{arguments.runs}' (got none)")
    if arguments.keep:
        _keep(arguments.runs, Path(arguments.results or "results"))
    if arguments.readme:
        return _renew(arguments.readme, arguments.results)
    held = gather_numbers(arguments.runs, arguments.results)
    facts = [_facts(number) for number in held]
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return 0
    if not facts:
        print("No results yet: `grama reproduce transfer --budget smoke` makes some.")
        return 0
    print_table([_HEAD, *(_texts(*row) for row in zip(held, facts, strict=True))])
    if old := explain_old(held):
        print(f"\n{old}")
    return 0


_HEAD = (
    *("suite", "budget", "data", "model", "metric", "mean", "deviation", "runs", "paper"),
    *("parameters", "hardware", "version", "config"),
)


def _texts(number: HeldNumber, fact: Mapping[str, object]) -> tuple[str, ...]:
    from torch_grama.report.held_results import OLD_MARK

    texts = {key: _word(fact[key]) for key in _HEAD}
    if number.old_version:
        texts["mean"] += f" {OLD_MARK}"
    return tuple(texts.values())


def _facts(number: HeldNumber) -> dict[str, object]:
    from torch_grama.report.paper_numbers import find_paper_number

    printed = find_paper_number(number.suite, number.data, number.model, number.metric)
    run = number.runs[0]
    config = run.path.with_name("config.yaml")
    return {
        "suite": number.suite,
        "budget": number.budget,
        "data": number.data,
        "model": number.model,
        "metric": number.metric,
        "mean": number.mean,
        "deviation": number.deviation,
        "validation": number.validation,
        "runs": len(number.runs),
        # measured times have neither; their file states the setting of each row
        "parameters": run.parameters or None,
        "hardware": run.hardware,
        "version": number.old_version or run.version or None,
        "is_old": bool(number.old_version),
        "config": str(config if config.is_file() else run.path),
        "paper": printed.mean if printed else None,
        "paper_deviation": printed.deviation if printed else None,
    }


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
    print(f"{count} results kept in {results}", file=sys.stderr)


def _renew(readme: Path, results: str | None) -> int:
    from torch_grama.report.held_results import gather
    from torch_grama.report.readme_table import build_readme_table, replace_table
    from torch_grama.reproduce.config_files import find_results

    held, _ = gather([find_results(results)])
    text = readme.read_text(encoding="utf-8")
    readme.write_text(replace_table(text, build_readme_table(held)), encoding="utf-8")
    print(f"the table in {readme} is up to date", file=sys.stderr)
    return 0
