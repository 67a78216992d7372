"""``grama evaluate``, ``predict``, ``info`` and ``export``: what is done with a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from warnings import catch_warnings, simplefilter

from torch_grama.cli.errors import say
from torch_grama.cli.parser import CommandParser, Commands, LoadingProgress, print_json, print_table
from torch_grama.runs.run_folder import RunFolder
from torch_grama.runs.words import format_count


def add_to(commands: Commands) -> None:

    def add(name: str, summary: str, *examples: str) -> CommandParser:
        parser = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog="\n  ".join(["examples:", *(f"grama {name} runs/first{e}" for e in examples)]),
        )
        parser.add_run()
        return parser

    evaluate = add("evaluate", "evaluate the best weights of a run", "", " --split val --json")
    evaluate.add_split("test")
    evaluate.add_json("print JSON")
    evaluate.runs(_evaluate)

    predict = add(
        "predict",
        "predict every node or graph with the best weights of a run",
        " --out predictions.csv",
        " --with-labels --out checked.csv",
        " --data new_folder -o unseen=refuse --out predictions.json",
    )
    other = "other data of the same form, labels not needed [the run's own]"
    predict.add_argument("--data", metavar="NAME_OR_PATH", help=other)
    predict.add_file("--out", "predictions.csv", ".csv, .json, .jsonl or .parquet")
    predict.add_argument(
        "--with-labels", action="store_true", help="add the true label and the split of each item"
    )
    predict.add_options(" [those of the run]")
    predict.runs(_predict, ValueError)

    info = add("info", "show a run's settings and progress", "")
    info.add_json("print JSON, all settings included")
    info.runs(_info)

    export = add(
        "export",
        "write the best weights of a run in a form others can load",
        " --format safetensors",
        " --format pt2 --out model",
    )
    export.add_argument(
        "--format",
        choices=["safetensors", "pt2"],
        default="safetensors",
        help="weights with their settings, or a program of torch.export [safetensors]",
    )
    export.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where to write [RUN/export-FORMAT]"
    )
    export.runs(_export)


def _evaluate(arguments: argparse.Namespace) -> int:
    RunFolder(arguments.folder).check()  # told before torch is loaded
    from torch_grama.experiments.finished_run import evaluate_run

    with LoadingProgress(silent=arguments.json) as progress:
        values = evaluate_run(arguments.folder, arguments.split, progress.report)
    if arguments.json:
        print_json({"run": str(arguments.folder), "split": arguments.split, **values})
    else:
        for name, value in values.items():
            print(f"{arguments.split} {name}  {value:.6g}")
    return 0


def _predict(arguments: argparse.Namespace) -> int:
    from torch_grama.datasets.catalogue import refuse_missing

    RunFolder(arguments.folder).check()
    if arguments.data is not None:
        refuse_missing(arguments.data)
    from torch_grama.datasets.options import parse_options
    from torch_grama.experiments.predictions import predict_run

    with LoadingProgress() as progress, catch_warnings(record=True) as caught:
        simplefilter("always", UserWarning)
        table = predict_run(
            arguments.folder,
            arguments.data,
            arguments.out,
            progress.report,
            with_labels=arguments.with_labels,
            options=parse_options(arguments.option),
        )
    for warning in caught:
        say(f"warning: {warning.message}")
    what = "graph" if table.columns[0] == "graph" and "node" not in table.columns else "node"
    print(f"{format_count(len(table.rows), what)} predicted: {arguments.out}")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    from torch_grama.runs.run_files import describe_run

    facts = describe_run(arguments.folder)
    if arguments.json:
        print_json(facts, 2)
        return 0
    last, hardware = facts.pop("last"), facts.pop("hardware", None)
    rows = []
    for name, value in facts.items():
        if value is not None and name not in ("config", "versions"):
            text = f"{value:,}" if name.startswith("parameter") else str(value)
            text = f"{value:.4g}" if isinstance(value, float) else text
            rows.append([name.replace("_", " "), text])
    if isinstance(last, dict) and last:
        shown = ", ".join(f"{name} {_short(value)}" for name, value in last.items() if value)
        rows.append(["last epoch", shown])
    if isinstance(hardware, dict):
        parts = [_count(name, str(value)) for name, value in hardware.items()]
        rows.append(["hardware", ", ".join(parts)])
    print_table(rows)
    if facts["state"] == "unfinished":
        print(f"\nFinish it with `grama train --resume {arguments.folder}`.")
    return 0


def _count(name: str, value: str) -> str:
    """A part of the hardware; one that is a number says what it counts."""
    return format_count(int(value), name.removesuffix("s")) if value.isdecimal() else value


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:  # written by someone else
        return ascii(text)[:40]


def _export(arguments: argparse.Namespace) -> int:
    RunFolder(arguments.folder).check()
    from torch_grama.experiments.finished_run import export_run

    for path in export_run(arguments.folder, arguments.format, arguments.out):
        print(path)
    return 0
