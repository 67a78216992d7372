"""``grama data``: lists, fetches, shows, checks and audits data sets."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_grama.cli.errors import Run
from torch_grama.cli.parser import (
    CommandParser,
    Commands,
    LoadingProgress,
    print_json,
    print_table,
)
from torch_grama.runs.words import format_bytes, format_count

if TYPE_CHECKING:
    from torch_grama.datasets.entry import Entry
    from torch_grama.datasets.errors import DatasetFaults
    from torch_grama.datasets.storage import Storage
    from torch_grama.datasets.task_data import GraphTaskData

_MOST_FAULTS = 50


def add_to(commands: Commands) -> None:
    data = commands.add_parser("data", help="list, fetch, show, check and audit data sets")
    below = data.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, command: Run, help: str, about: str | None = None) -> CommandParser:
        parser = below.add_parser(name, help=help, description=about)
        parser.runs(command, ValueError)
        if name != "check":
            parser.add_argument(
                "--root",
                type=Path,
                metavar="FOLDER",
                help="folder for downloaded and prepared data [GRAMA_CACHE, or "
                "~/.cache/torch_grama]",
            )
        if name not in ("get", "check"):
            parser.add_json()
        if name != "list":
            parser.add_options()
        return parser

    own = "a name, or the path of your own files"
    add("list", _list, "all data sets: size, task, metric, what is downloaded")
    get = add("get", _get, "fetch or generate data sets")
    get.add_argument("names", nargs="+", metavar="NAME", help="names as `grama data list` prints")
    show = add("show", _show, "statistics beside the published ones, and a picture if asked for")
    show.add_argument("name", metavar="NAME", help=own)
    show.add_argument(
        "--picture",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="draw one graph into a PNG file [NAME.png in the current folder]",
    )
    show.add_argument(
        "--graph", type=int, metavar="N", help="draw the graph with this number [a middling one]"
    )
    check = add("check", _check, "check how your files are read")
    check.add_argument("path", metavar="PATH", help="a file or folder")
    audit = add(
        "audit",
        _audit,
        "look for overlaps, twins, wrong labels and leaks",
        "Looks for faults that make results on a data set misleading: parts that overlap, test "
        "graphs that are also in the training part, labels that are not what their name says, "
        "single columns that give the target away, and missing classes. The exit code is 1 if "
        "there is a fault.",
    )
    audit.add_argument("name", metavar="NAME", help=own)
    audit.add_argument("--fold", type=int, default=0, metavar="N", help="which split [0]")


def _list(arguments: argparse.Namespace) -> int:
    from torch_grama.datasets.catalogue import CATALOGUE
    from torch_grama.datasets.storage import Storage

    storage = Storage(arguments.root)
    facts = [_facts(entry, storage) for entry in CATALOGUE.values()]
    if arguments.json:
        print_json(facts, 2)
        return 0
    table = [["name", "task", "metric", "graphs", "size", "here", "what it asks"]]
    table += [
        [
            str(fact["name"]),
            f"{fact['level']} {fact['kind']}",
            f"{fact['metric']} {'↑' if fact['higher_is_better'] else '↓'}",
            f"{fact['graphs']:,}",
            format_bytes(fact["bytes"]) if fact["bytes"] else "-",
            str(fact["here"]),
            str(fact["summary"]),
        ]
        for fact in facts
    ]
    print_table(table, right=(3, 4))
    print(
        "\nTransfer sets exist for any distance (transfer-ring-25) and as -carry and -legacy, "
        "property sets as -true. Barbells exist for any size, range tasks for 1 to 10 hops and as "
        "-copy, ECHO as -published."
    )
    return 0


def _facts(entry: Entry, storage: Storage) -> dict[str, Any]:
    return {
        "name": entry.name,
        "family": entry.family,
        "summary": entry.summary,
        "level": entry.level,
        "kind": entry.kind,
        "metric": entry.metric.name,
        "higher_is_better": entry.metric.higher_is_better,
        "graphs": entry.published.num_graphs,
        "bytes": entry.disk_bytes,
        "here": _presence(entry, storage),
        "licence": entry.licence,
        "citation": entry.citation,
        "files": [[file.path for file in source.files] for source in entry.sources],
        "without_checksum": list(entry.unchecked_files),
    }


def _presence(entry: Entry, storage: Storage) -> str:
    """Where a set stands: its files are here, it is prepared, it is generated, or it is missing."""
    if _is_instant(entry):
        return "generated"
    stem = entry.family if entry.family in ("property", "echo") else entry.name
    kept = "v" if entry.sources else "seed"
    prepared = any(storage.root.glob(f"compact/{stem}-{kept}[0-9]*.npz"))
    if prepared or storage.find_source(entry.sources) is not None:
        return "yes"
    return "no" if entry.sources else "on demand"


def _is_instant(entry: Entry) -> bool:
    return not entry.sources and entry.disk_bytes == 0


def _load(arguments: argparse.Namespace) -> GraphTaskData:
    from torch_grama.datasets.catalogue import load_with
    from torch_grama.datasets.options import parse_options
    from torch_grama.datasets.storage import Storage

    with LoadingProgress() as progress:
        storage = Storage(arguments.root, progress.report)
        return load_with(arguments.name, storage, parse_options(arguments.option))


def _get(arguments: argparse.Namespace) -> int:
    from torch_grama.datasets.catalogue import refuse_missing, resolve
    from torch_grama.datasets.options import parse_options
    from torch_grama.datasets.storage import Storage

    for name in arguments.names:
        refuse_missing(name)
    wanted = [resolve(name, parse_options(arguments.option)) for name in arguments.names]
    for entry, options in wanted:
        with LoadingProgress() as progress:
            storage = Storage(arguments.root, progress.report)
            task = entry.load(storage, **options)
        here = storage.find_source(entry.sources)
        place = f"in {storage.root if here is None else here[1][0].parent}"
        if _is_instant(entry):
            place = "generated whenever asked for"
        print(f"{entry.name}: {format_count(len(task.graphs), 'graph')}, {place}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    task = _load(arguments)
    from torch_grama.datasets.catalogue import find, is_path
    from torch_grama.datasets.describe import compare
    from torch_grama.datasets.errors import escaped
    from torch_grama.datasets.picture import save_picture

    published = None if is_path(arguments.name) else find(task.name).published
    rows = compare(task, published)
    picture: Path | None = arguments.picture
    if picture == Path() or (picture is None and arguments.graph is not None):
        picture = Path(f"{Path(task.name).name}.png")
    if picture is not None:
        save_picture(task, picture, arguments.graph)
    if arguments.json:
        names = ("name", "level", "kind", "source", "licence", "citation")
        facts = {name: getattr(task, name) for name in names}
        facts |= {"metric": task.metric.name, "higher_is_better": task.metric.higher_is_better}
        facts |= {"statistics": list(map(asdict, rows)), "notes": list(task.notes)}
        print_json({**facts, "picture": None if picture is None else str(picture)}, 2)
        return 0
    better = "higher" if task.metric.higher_is_better else "lower"
    print(f"{task.name}: {task.level} {task.kind}, {task.metric.name} ({better} is better)")
    for word, text in (("source", task.source), ("licence", task.licence), ("cite", task.citation)):
        if text:
            print(f"{word}: {text}")
    marks = {True: "=", False: "differs", None: ""}
    table = [[row.name, row.measured, row.published, marks[row.agrees]] for row in rows]
    print()
    print_table([["", "here", "published", ""], *table], right=(1, 2))
    for note in (f"Published: {published.source}." if published else "", *task.notes):
        if note:
            print(f"- {escaped(note)}")
    if picture is not None:
        print(f"Picture: {picture}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from torch_grama.datasets.catalogue import find, is_path, load_with
    from torch_grama.datasets.errors import DatasetError, DatasetFaults
    from torch_grama.datasets.options import parse_options
    from torch_grama.datasets.storage import Storage

    if not is_path(arguments.path):
        find(arguments.path)  # which raises where there is none
        raise DatasetError(
            f"'{arguments.path}' names a data set: `grama data show {arguments.path}` describes "
            f"it, and './{arguments.path}' means the files of that name."
        )
    try:
        task = load_with(arguments.path, Storage(), parse_options(arguments.option))
    except DatasetFaults as error:
        return _say_faults(arguments, error)
    from torch_grama.datasets.describe import describe

    print(describe(task))
    return 0


def _say_faults(arguments: argparse.Namespace, error: DatasetFaults) -> int:
    """Lists all faults, and the command with all options that were named."""
    from torch_grama.datasets.errors import escaped
    from torch_grama.datasets.options import join_options

    lines = [f"{arguments.path}: {len(error.faults):,} faults"]
    kinds: dict[str, list[str]] = {}  # those that differ in the line alone, together
    for fault in map(str, error.faults):
        kinds.setdefault(re.sub(r"\bline \d+", "line", fault), []).append(fault)
    for number, (first, *others) in enumerate([*kinds.values()][:_MOST_FAULTS], start=1):
        more = f" The same in {format_count(len(others), 'more line')}." if others else ""
        lines += textwrap.wrap(
            escaped(f"{number}. {first}{more}"),
            width=100,
            initial_indent="  ",
            subsequent_indent="     ",
            break_on_hyphens=False,
        )
    if len(kinds) > _MOST_FAULTS:
        lines.append(f"  and {len(kinds) - _MOST_FAULTS:,} more")
    remedies = [fault.remedy for fault in error.faults]
    if any(remedies):
        named = [word for remedy in remedies if remedy for word in remedy.split(" -o ")]
        options = join_options([*arguments.option, *named])
        what = "With these options it can be read" if all(remedies) else "Options for some of them"
        command = shlex.join(["grama", "data", "check", arguments.path])
        lines.append(f"{what}: {command} {options}")
    print("\n".join(lines), file=sys.stderr)
    return 2


def _audit(arguments: argparse.Namespace) -> int:
    task = _load(arguments)
    from torch_grama.datasets.audit import audit

    found = audit(task, arguments.fold)
    if arguments.json:
        print_json({"name": task.name, "findings": list(map(asdict, found))}, 2)
    else:
        print_table([[item.check, item.verdict, item.text] for item in found])
    return int(any(item.verdict == "fault" for item in found))
