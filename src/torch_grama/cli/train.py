"""``grama train``: from data to a trained and evaluated model in a run folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch_grama.cli.parser import (
    Commands,
    LoadingProgress,
    duration,
    given_settings,
    print_json,
    print_table,
)
from torch_grama.runs.words import format_metric

if TYPE_CHECKING:
    from torch_grama.datasets.task_data import GraphTaskData
    from torch_grama.experiments.config import RunConfig
    from torch_grama.experiments.folds import Summary
    from torch_grama.runs.result import Result

_EPILOG = """\
common settings (all of them: grama train --help-all, for one model: --model NAME --help-all):
  --data NAME_OR_PATH        a name of `grama data list`, or your own files
  --model NAME               a name from `grama models`; without one, a few models race on
                             validation data for a part of --time-budget, and the best is trained
  --model.backbone NAME      gcn, gatedgcn, gin, gps or neighbor-sum
  --model.backbone_options.KEY VALUE
                             an option of the backbone, such as pre_norm of gps
  --model.num_layers N       depth: how many hops information travels
  --model.hidden_channels N  width
  --model.dropout P
  --optimizer.lr RATE
  --trainer.max_epochs N
  --trainer.patience N       epochs without improvement before the run stops
  --trainer.batch_size N
  --data.fold N              which of the official splits
  --data.rwse N              random-walk encodings of N steps as extra features
  --data.options.KEY VALUE   an option of the data set, such as label or variant (or -o KEY=VALUE)
  --task.class_weights balanced
  --seed N

Settings you leave out get defaults that suit the task. You can also keep settings in a YAML file:
`grama train --data X --print-config > my.yaml`, then `grama train --config my.yaml`; what the
command line says wins over the file.

examples:
  grama train --data my_folder
  grama train --data my_folder --time-budget 10m
  grama train --data my_folder --model gcn
  grama train --data minesweeper --model.backbone gcn --trainer.max_epochs 500
  grama train --data cora --folds all --run runs/cora
  grama train --config hetero/minesweeper-grama-gcn
  grama train --resume runs/cora
  grama train --resume runs/cora --trainer.max_epochs 1000
"""


def add_to(commands: Commands) -> None:
    train = commands.add_parser(
        "train",
        help="train a model on a data set or your own files, or resume a run",
        usage="grama train --data NAME_OR_PATH [--model NAME] [options] [--SECTION.SETTING VALUE]"
        "\n       grama train --resume RUN [--trainer.max_epochs N]",
        description="Trains a model, keeps the weights of the best validation epoch, and evaluates "
        "them once on test.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    train.set_defaults(keep_unknown=True)
    train.runs(_train)
    add = train.add_argument
    add("--run", dest="folder", type=Path, metavar="PATH", help="run folder [runs/TIME-DATA-MODEL]")
    add("--resume", type=Path, metavar="RUN", help="finish an unfinished run")
    config = "YAML file with settings, or the name of one in the package"
    add("--config", action="append", default=[], metavar="FILE", help=config)
    budget = "without --model: time to choose a model and train it, such as 90s, 10m or 1h [2m]"
    add("--time-budget", type=duration, metavar="TIME", help=budget)
    add("--folds", metavar="FOLDS", help="run several folds in turn: all, 0-4 or 0,2,5")
    add("--no-test", action="store_true", help="do not evaluate on the test split")
    train.add_quiet("result")
    train.add_options()
    train.add_json("print the result as JSON only")
    shown = "print all settings as YAML and stop"
    add("--print-config", "--print_config", action="store_true", help=shown)
    add("--help-all", action="store_true", help="print every setting with its type and stop")


def _train(arguments: argparse.Namespace) -> int:
    _refuse_missing(arguments)
    from torch_grama.experiments.settings import check_settings, option_parser
    from torch_grama.experiments.settings import read_file as read
    from torch_grama.reproduce.suite import find_config

    given = given_settings(arguments)
    if arguments.no_test:
        given["test"] = "false"
    arguments.silent = arguments.quiet or arguments.json
    if arguments.help_all:
        print(option_parser(str(given.get("model.name", "grama"))).format_help())
        return 0
    if arguments.resume is not None:
        return _resume(arguments, given)
    layers = [(f"in '{path}'", read(path)) for path in map(find_config, arguments.config)]
    settings = check_settings(*layers, ("on the command line", given))
    return _start(arguments, settings)


def _refuse_missing(arguments: argparse.Namespace) -> None:
    """Says that data or a run is not there before torch is loaded, which takes seconds."""
    from torch_grama.datasets.catalogue import refuse_missing
    from torch_grama.runs.run_folder import RunFolder

    if arguments.resume is not None and not arguments.resume.exists():
        RunFolder(arguments.resume).check()
    for word, after in pairwise([*arguments.settings, ""]):
        option, equals, value = word.partition("=")
        if option in ("--data", "--data.name") and not after.startswith("--"):
            refuse_missing(value if equals else after)


def _start(arguments: argparse.Namespace, settings: Mapping[str, object]) -> int:
    from torch_grama.datasets.catalogue import is_path
    from torch_grama.datasets.errors import escaped
    from torch_grama.experiments.config import ConfigError, DataConfig
    from torch_grama.experiments.data_facts import DataFacts, load_data
    from torch_grama.experiments.folds import parse_folds
    from torch_grama.experiments.models import reads_edge_features
    from torch_grama.experiments.settings import resolve_config
    from torch_grama.runs.run_folder import RunFolder, propose_folder
    from torch_grama.runs.safe_files import to_yaml

    wanted = DataConfig.from_settings(settings)
    is_named = any(name.startswith("model.") for name in settings)
    if is_named and arguments.time_budget is not None:
        raise ConfigError(
            "Expected no '--time-budget' where a model is named: it is the time to choose one; "
            "'trainer.max_epochs' says how long to train"
        )
    if arguments.folder is not None and not arguments.print_config:
        RunFolder(arguments.folder).make()  # a folder that is taken is told before data is read
    with LoadingProgress(silent=arguments.silent) as progress:
        data = load_data(wanted, progress.report)
    facts = DataFacts.of(data)
    config = resolve_config(settings, facts)
    if arguments.print_config:
        print(to_yaml(config.to_dict()), end="")
        return 0
    if arguments.folds is not None:
        parse_folds(arguments.folds, len(data.folds))  # a mistake is told before a race
    if not arguments.silent and not is_path(wanted.name) and Path(wanted.name).exists():
        print(
            f"- '{wanted.name}' was taken as the data set; './{wanted.name}' means the files of "
            f"that name.",
            file=sys.stderr,
        )
    if not arguments.silent and data.licence == "the user's own":
        notes = [*data.notes, *data.warnings]  # what was decided while reading the files
        if is_named and facts.edge_encoding.num_columns and not reads_edge_features(config.model):
            notes.append(
                f"The model '{config.model.name}' does not read features of edges, so those of the "
                "data are left out; 'grama-gatedgcn' reads them."
            )
        for note in notes:
            print(f"- {escaped(note)}", file=sys.stderr)
    word = config.model.name if is_named else "race"
    folder = arguments.folder or propose_folder(config.data.name, word)
    if is_named:
        return _run(arguments, config, data, folder, arguments.folds)
    budget = arguments.time_budget or 120.0
    return _race(arguments, settings, data, folder, budget, arguments.folds)


def _race(
    arguments: argparse.Namespace,
    settings: Mapping[str, object],
    data: GraphTaskData,
    folder: Path,
    budget: float,
    folds: str | None,
) -> int:
    """Chooses a model, since none was named, and trains it."""
    from torch_grama.experiments.data_facts import DataFacts
    from torch_grama.experiments.folds import parse_folds
    from torch_grama.experiments.race import run_race
    from torch_grama.experiments.settings import resolve_config

    raced = dict(settings)
    if folds is not None:
        raced["data.fold"] = parse_folds(folds, len(data.folds))[0]

    def tell(line: str) -> None:
        if not arguments.silent:
            print(line, file=sys.stderr, flush=True)

    outcome = run_race(raced, data, folder, budget, folds=folds, report=tell)
    tell("\n".join(outcome.lines))
    config = resolve_config(outcome.settings, DataFacts.of(data))
    return _run(arguments, config, data, folder, folds)


def _run(
    arguments: argparse.Namespace,
    config: RunConfig,
    data: GraphTaskData,
    folder: Path,
    folds: str | None,
) -> int:
    from torch_grama.experiments.folds import parse_folds, run_folds
    from torch_grama.experiments.run import run_experiment

    if folds is not None:
        chosen = parse_folds(folds, len(data.folds))
        summary = run_folds(config, folder, chosen, report=_report(arguments), data=data)
        _print_summary(arguments, summary, folder)
        return 0
    result = run_experiment(config, folder, report=_report(arguments), data=data)
    _print_result(arguments, result, folder)
    return 0


def _resume(arguments: argparse.Namespace, given: Mapping[str, object]) -> int:
    from torch_grama.experiments.config import ConfigError, DataConfig
    from torch_grama.experiments.data_facts import load_data
    from torch_grama.experiments.folds import is_folds_folder, resume_folds
    from torch_grama.experiments.race import is_racing, read_race
    from torch_grama.experiments.run import load_config, run_experiment
    from torch_grama.runs.result import Result
    from torch_grama.runs.run_folder import RunFolder
    from torch_grama.training.checkpoint_file import FREE

    folder = arguments.resume
    if arguments.print_config:
        raise ConfigError(
            "'--print-config' does not go with '--resume': a run has its settings in its folder"
        )
    are_folds = is_folds_folder(folder)
    in_race = is_racing(folder) and not are_folds
    options = {
        "config": arguments.config or None,
        "run": arguments.folder,
        "folds": arguments.folds,
        "time-budget": arguments.time_budget,
    }
    words = [name for name in given if name not in FREE or are_folds or in_race]
    words += [name for name, value in options.items() if value is not None]
    if words:
        kept = f"a run continues with its own settings, except for {', '.join(FREE)}"
        if are_folds or in_race:
            start = "several folds continue" if are_folds else "a race continues"
            kept = f"{start} with the settings given at the start"
        raise ConfigError(
            f"'{words[0]}' cannot be changed with '--resume': {kept}; start a new run for others"
        )
    if in_race:
        begun = read_race(folder)
        with LoadingProgress(silent=arguments.silent) as progress:
            data = load_data(DataConfig.from_settings(begun["settings"]), progress.report)
        return _race(arguments, begun["settings"], data, folder, begun["budget"], begun["folds"])
    if are_folds:
        _print_summary(arguments, resume_folds(folder, report=_report(arguments)), folder)
        return 0
    run = RunFolder(folder)
    run.check()
    config = load_config(folder, given)
    if run.is_finished:
        if config != load_config(folder):
            raise ConfigError(
                f"The run '{folder}' is finished, and its '{next(iter(given))}' cannot be changed: "
                f"start a new run with `grama train --config {run.config}` and the setting"
            )
        if not arguments.json:
            print(f"The run '{folder}' is finished: there is nothing to do.", file=sys.stderr)
        _print_result(arguments, Result.load(run.result), folder)
        return 0
    with LoadingProgress(silent=arguments.silent) as progress:
        result = run_experiment(
            config, folder, resume=True, report=_report(arguments), data_report=progress.report
        )
    _print_result(arguments, result, folder)
    return 0


def _report(arguments: argparse.Namespace) -> Literal["auto", "quiet", "json"]:
    if arguments.json:
        return "json"
    return "quiet" if arguments.quiet else "auto"


def _print_result(arguments: argparse.Namespace, result: Result, folder: Path) -> None:
    from torch_grama.report.verdict import judge_run
    from torch_grama.runs.run_files import read_run_files

    verdict = judge_run(read_run_files(folder, brief=True))
    if arguments.json:
        print_json({**result.to_dict(), "run": str(folder), "verdict": verdict})
        return
    test = "not read" if result.test is None else format_metric(result.test)
    best = f"epoch {result.best_epoch} of {result.epochs}"
    rows = [
        ("data", f"{result.data}, fold {result.fold}"),
        ("model", f"{result.model}, {result.parameters:,} parameters"),
        (f"val {result.metric}", f"{format_metric(result.val)}, {best}"),
        (f"test {result.metric}", test),
        ("time", f"{result.seconds:.1f} s"),
        ("run", str(folder)),
    ]
    print_table(rows)
    print("\n".join(verdict))


def _print_summary(arguments: argparse.Namespace, summary: Summary, folder: Path) -> None:
    if arguments.json:
        print_json({**summary.to_dict(), "run": str(folder)})
        return
    metric = summary.results[0].metric
    rows = []
    for result in summary.results:
        test = "not read" if result.test is None else format_metric(result.test)
        rows.append((f"fold {result.fold}", f"val {format_metric(result.val)}  test {test}"))
    for name, mean, deviation in (
        ("val", summary.val, summary.val_deviation),
        ("test", summary.test, summary.test_deviation),
    ):
        if mean is not None:
            spread = "" if deviation is None else f" ± {format_metric(deviation)}"
            rows.append((f"{name} {metric}", f"{format_metric(mean)}{spread}"))
    rows.append(("runs", str(folder)))
    print_table(rows)
