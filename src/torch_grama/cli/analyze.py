"""``grama analyze``: what a trained model does, into a file beside the run."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.cli.parser import Commands, LoadingProgress
from torch_grama.runs.run_folder import ANALYSIS, RunFolder

if TYPE_CHECKING:
    from torch_grama.analysis import Analysis

_EPILOG = """\
examples:
  grama analyze runs/first
  grama analyze runs/first --compare runs/gcn
  grama report runs/first --out report.html
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "analyze",
        help="analyze the dynamics, range and errors of a run",
        description="Looks at the best weights of a run: coefficients, poles and stability of "
        "every block, how far information travels (also before training, and how far the task "
        "requires, where that is known), whether states become alike, and where predictions are "
        "wrong. Writes RUN/analysis.json, which `grama report` shows.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    parser.add_run()
    others = "other runs on the same data, such as the backbone alone"
    add("--compare", nargs="+", type=Path, default=[], metavar="RUN", help=others)
    parser.add_split("val")
    add("--max-graphs", type=int, metavar="N", help="graphs whose blocks are analysed [32]")
    add("--samples", type=int, metavar="N", help="nodes whose influence is measured [at most 32]")
    add("--seed", type=int, default=0, metavar="N", help="seed of sampling [0]")
    add("--out", type=Path, metavar="FILE", help="where to write [RUN/analysis.json]")
    parser.runs(_analyze)


def _analyze(arguments: argparse.Namespace) -> int:
    for folder in (arguments.folder, *arguments.compare):
        RunFolder(folder).check()  # told before torch is loaded
    begun = time.monotonic()

    def report(part: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {part} ...", file=sys.stderr, flush=True)

    report("loading")
    from torch_grama.analysis import AnalysisSettings
    from torch_grama.experiments.analyze_run import analyze_run
    from torch_grama.experiments.config import ConfigError

    given = {"max_graphs": arguments.max_graphs, "num_samples": arguments.samples}
    try:
        settings = AnalysisSettings(
            seed=arguments.seed,
            **{name: value for name, value in given.items() if value is not None},
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    with LoadingProgress() as progress:
        found = analyze_run(
            arguments.folder,
            compare=arguments.compare,
            split=arguments.split,
            settings=settings,
            report=report,
            data_report=progress.report,
            out=arguments.out,
        )
    _print(found, arguments.out or arguments.folder / ANALYSIS)
    return 0


def _print(found: Analysis, path: Path) -> None:
    from dataclasses import asdict

    from torch_grama.report.verdict import judge_stability
    from torch_grama.runs.safe_files import Record

    for name, influence in found.influence.items():
        error = influence.influence_range_error
        bounds = "" if error is None else f" ± {error:.2g}"
        print(f"influence range, {name}  {influence.influence_range:.3g}{bounds} hops")
    for sentence in judge_stability(Record(asdict(found))):
        print(sentence)
    print(f"analysis  {path}")
