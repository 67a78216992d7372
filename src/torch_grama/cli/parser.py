"""What all commands share: the parser, tables, JSON, and bars while data is fetched."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeAlias

from torch_grama.cli.errors import Run, guarded
from torch_grama.runs.bars import Bars
from torch_grama.runs.words import align, name_nearest

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""What ``add_subparsers`` returns: every command adds itself to it."""


class _Formatter(argparse.HelpFormatter):
    """Wraps a paragraph, and leaves a text of several lines as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaint about an unknown command lists the commands, nearest first.

    The parsers that its subparsers make are of the same class. One with the default
    ``keep_unknown`` hands over what it does not know as ``settings``.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def runs(self, command: Run, *mistakes: type[Exception]) -> None:
        """Sets what is called with the parsed arguments; see :func:`guarded`."""
        self.set_defaults(run=guarded(command, *mistakes))

    def add_json(self, help: str = "print JSON instead of a table") -> None:
        self.add_argument("--json", action="store_true", help=help)

    def add_run(self) -> None:
        self.add_argument("folder", type=Path, metavar="RUN", help="the folder of the run")

    def add_split(self, default: str) -> None:
        splits, help = ["train", "val", "test"], f"part of the data to use [{default}]"
        self.add_argument("--split", choices=splits, default=default, help=help)

    def add_file(self, option: str, default: str, help: str) -> None:
        help = f"{help} [{default}]"
        self.add_argument(option, type=Path, default=Path(default), metavar="FILE", help=help)

    def add_count(self, option: str, least: int, default: int, help: str) -> None:
        kind, help = whole_number(least), f"{help} [{default}]"
        self.add_argument(option, type=kind, default=default, metavar="N", help=help)

    def add_quiet(self, what: str = "table") -> None:
        self.add_argument("--quiet", action="store_true", help=f"print the {what} only")

    def add_runs(self, default: Path) -> None:
        help = f"the run folders [{default}]"
        self.add_argument("--runs", type=Path, default=default, metavar="DIR", help=help)

    def add_options(self, default: str = "") -> None:
        """Adds ``-o KEY=VALUE``, the options of a data set."""
        self.add_argument(
            *("-o", "--option"),
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="an option of the data, such as label=income, ignore=[age,name] or directed=true; "
            f"may be repeated{default}",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if self.get_default("keep_unknown"):
            parsed.settings, unknown = unknown, []
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = name_nearest(str(value), action.choices)
            raise argparse.ArgumentError(None, f"Expected a command, one of {near} (got {value!r})")
        super()._check_value(action, value)


def whole_number(least: int) -> Callable[[str], int]:
    """Returns the type of an argument that is a whole number from ``least`` on."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} on (got {text!r})"
            )
        return int(text)

    return read


def duration(text: str) -> float:
    r"""Reads a time span such as ``90s``, ``2m`` or ``1h``; a bare number counts seconds."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in ("s", "m", "h") else (text, "s")
    try:
        seconds = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 2m or 1h (got {text!r})")
    return seconds


def given_settings(arguments: argparse.Namespace) -> dict[str, object]:
    r"""The settings of a command line under their dotted names, options of the data among them."""
    from torch_grama.datasets.options import parse_options
    from torch_grama.experiments.settings import read_arguments

    options = parse_options(arguments.option).items()
    given: dict[str, object] = {f"data.options.{name}": value for name, value in options}
    return given | read_arguments(arguments.settings)


def output_width() -> int:
    r"""How many columns the output has; 120 where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 120


def print_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    print("\n".join(align(rows, right)))


def print_json(value: object, indent: int | None = None) -> None:
    from torch_grama.runs.result import to_json

    print(to_json(value, indent))


class LoadingProgress(Bars):
    r"""A bar for each thing that is done on a terminal; elsewhere one line."""

    def __init__(self, silent: bool = False) -> None:
        super().__init__(draw=False if silent else None)
        self._silent = silent
        self._told: set[str] = set()

    def report(self, what: str, done: int, total: int | None) -> None:
        r"""Takes what :class:`~torch_grama.datasets.storage.Storage` reports."""
        if not self.are_drawn and not self._silent and what not in self._told:
            self._told.add(what)
            self.say(f"{what} ...")
        self.show(what, done, total)
