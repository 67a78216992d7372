"""``grama sweep``: searches a space of settings on Ray."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.cli.errors import say
from torch_grama.cli.parser import Commands, LoadingProgress, print_json, print_table

if TYPE_CHECKING:
    from torch_grama.search.space import Space
    from torch_grama.search.sweep_result import SweepResult

MOST_ROWS = 20
_EPILOG = """\
a space file:
  base:                                  settings of every trial, as for `grama train --config`
    data: my_folder
    trainer.max_epochs: 100
  space:                                 what is searched
    optimizer.lr: {grid: [0.01, 0.001]}  also {choice: [..]}, {int: [a, b]},
    model.num_layers: {grid: [4, 8]}     {uniform: [a, b]}, {log_uniform: [a, b]}
  repeat: {seeds: [0, 1, 2]}             runs of each trial, or {folds: [..]}
  searcher: {name: random, num_trials: 20}
  scheduler: {name: asha, grace_epochs: 10, reduction: 3}
  resources: {cpus_per_trial: 1, gpus_per_trial: 0.5, concurrency: 4}

Trials are compared on validation; the test part is not read. `--SECTION.SETTING VALUE` fixes a
setting for every trial, even one that the space file searches.

examples:
  grama sweep space.yaml
  grama sweep space.yaml --searcher optuna --num-trials 50 --scheduler asha
  grama sweep spaces/transfer --data transfer-ring-10 --model.backbone gcn
  grama sweep runs/sweep-space --resume
"""


def add_to(commands: Commands) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="search a space of settings, on this machine or a Ray cluster",
        usage="grama sweep SPACE.yaml [options] [--SECTION.SETTING VALUE]"
        "\n       grama sweep FOLDER --resume",
        description="Tries the settings of a space, each trial in its own run folders, and writes "
        "a sorted table and the best settings.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    sweep.set_defaults(keep_unknown=True)
    sweep.runs(_sweep)
    add = sweep.add_argument
    what = "a YAML file, the name of one in the package, or the folder of a sweep to resume"
    add("space", type=Path, metavar="SPACE", help=what)
    add("--out", type=Path, metavar="PATH", help="folder of the sweep [runs/sweep-SPACE]")
    add("--resume", action="store_true", help="continue a sweep: run the missing trials")
    add("--retry-failed", action="store_true", help="with --resume: run failed trials again")
    add("--ray-address", metavar="ADDRESS", help="join a Ray cluster [start a local Ray]")
    add("--concurrency", type=int, metavar="N", help="largest number of trials at a time")
    add("--cpus-per-trial", type=float, metavar="X", help="cores of a trial [1]")
    add("--gpus-per-trial", type=float, metavar="X", help="GPUs of a trial [1 where there are any]")
    add("--scheduler", choices=["none", "asha"], help="whether poor trials end early [none]")
    chosen = "how points are chosen [grid if all values are listed as such, otherwise random]"
    add("--searcher", choices=["grid", "random", "optuna"], help=chosen)
    add("--num-trials", type=int, metavar="N", help="trials of a random or optuna search [20]")
    sweep.add_quiet()
    sweep.add_json("print the result as JSON only")


def _sweep(arguments: argparse.Namespace) -> int:
    from torch_grama.runs.run_folder import RunError
    from torch_grama.search.tune import check_folder, run_sweep

    is_folder = arguments.space.is_dir()
    if is_folder and not arguments.resume:
        raise RunError(
            f"Expected a space file (got the folder '{arguments.space}'): go on with the sweep "
            f"there by `--resume`"
        )
    proposed = arguments.space if is_folder else Path("runs") / f"sweep-{arguments.space.stem}"
    folder = arguments.out or proposed
    check_folder(folder, arguments.resume)
    silent = arguments.quiet or arguments.json
    with LoadingProgress(silent=silent) as progress:
        result = run_sweep(
            _read(arguments),
            folder,
            resume=arguments.resume,
            retry_failed=arguments.retry_failed,
            address=arguments.ray_address,
            report="quiet" if silent else "auto",
            data_report=progress.report,
        )
    _print(arguments, result)
    return 0 if result.best is not None else 1


def _read(arguments: argparse.Namespace) -> Space:
    """The space of the file, with what the command line says."""
    from dataclasses import replace

    from torch_grama.experiments.settings import read_arguments
    from torch_grama.reproduce.suite import find_config
    from torch_grama.search.space import read_space
    from torch_grama.search.tune import SPACE

    path = arguments.space / SPACE if arguments.space.is_dir() else find_config(arguments.space)
    space = read_space(path)
    for part, names in (
        ("resources", ("concurrency", "cpus_per_trial", "gpus_per_trial")),
        ("scheduler", ("scheduler",)),
        ("searcher", ("searcher", "num_trials")),
    ):
        given = {
            "name" if name == part else name: getattr(arguments, name)
            for name in names
            if getattr(arguments, name) is not None
        }
        if given:
            space = replace(space, **{part: replace(getattr(space, part), **given)})
    return space.with_settings(read_arguments(arguments.settings))


def _print(arguments: argparse.Namespace, result: SweepResult) -> None:
    from torch_grama.search.sweep_result import BEST, TABLE

    if arguments.json:
        print_json(result.to_dict())
        return
    header, *rows = result.rows()
    print_table([header, *rows[:MOST_ROWS]])
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS} more in {result.folder / TABLE}")
    failed = sum(outcome.state == "failed" for outcome in result.outcomes)
    if failed:
        say(
            f"{failed} failed: each says why in its 'failure.json'; run them again with "
            f"`--resume --retry-failed`"
        )
    if result.best is None:
        say(f"No trial finished: see {result.folder}")
        return
    print(f"best      {result.folder / BEST}")
    print(f"to train  grama train --config {result.folder / BEST}")
    print(f"on test   grama evaluate {result.best_run}")
