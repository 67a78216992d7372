"""The numbers printed in the paper, read from data files that name table and row."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FOLDER = files(__package__) / "paper"


@dataclass(frozen=True)
class PaperNumber:
    r"""One cell of one table of the paper."""

    table: str  #: its title and its label in the paper's source
    row: str  #: the row as printed
    model: str  #: the word by which this project calls that model, with its encodings after a plus
    data: str  #: the word by which this project calls the data set
    metric: str  #: the metric
    mean: float | None  #: the printed mean, in the printed unit (shares in percent), or :obj:`None`
    deviation: float | None  #: the printed deviation, if there is one
    note: str  #: what stands in the cell instead of a number, or what is known to be wrong with it


@cache
def list_paper_tables() -> Sequence[str]:
    r"""Returns the names of the tables of which there is a file."""
    return tuple(sorted(entry.name.removesuffix(".csv") for entry in _FOLDER.iterdir()))


@cache
def read_paper_numbers(table: str) -> Sequence[PaperNumber]:
    r"""Reads the numbers of one table, in the order of the paper.

    Args:
        table (str): One of :func:`list_paper_tables`.

    Raises:
        ValueError: If there is no such table.
    """
    if table not in list_paper_tables():
        raise ValueError(
            f"Expected a table of the paper, one of {', '.join(list_paper_tables())} "
            f"(got {table!r})"
        )
    text = (_FOLDER / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(
        PaperNumber(
            *(row["table"], row["row"], row["model"], row["data"], row["metric"]),
            float(row["mean"]) if row["mean"] else None,
            float(row["deviation"]) if row["deviation"] else None,
            row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def find_paper_number(suite: str, data: str, model: str, metric: str) -> PaperNumber | None:
    r"""Returns what the paper prints for one model on one data set.

    Args:
        suite (str): The experiment; one without a table of its own has no numbers.
        data (str): The data set.
        model (str): The model.
        metric (str): The metric.
    """
    numbers = read_paper_numbers(suite) if suite in list_paper_tables() else ()
    wanted = (data, model, metric)
    return next((n for n in numbers if (n.data, n.model, n.metric) == wanted), None)
