"""What a command must know of a column of an experiment: its folds, its trivial predictors."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_grama.datasets.task_data import GraphTaskData
    from torch_grama.report.held_results import HeldNumber
    from torch_grama.sweeps.suite import Suite, SuiteData

ABSENT = "data not here"


@dataclass(frozen=True)
class ColumnFacts:
    r"""What is known of a column once its data was looked at.

    Attributes:
        absent: Why its data cannot be used, in a few words, or empty.
        num_folds: The number of folds.
        references: The numbers of its trivial predictors by name.
    """

    absent: str = ""
    num_folds: int = 0
    references: Mapping[str, HeldNumber] = field(default_factory=dict)


def look_at_column(suite: Suite, entry: SuiteData, may_fetch: bool) -> ColumnFacts:
    r"""Loads the data of a column once and takes from it what runs and tables need.

    Data that cannot be had is reported on standard error, with the reason.

    Args:
        suite (Suite): The experiment.
        entry (SuiteData): Its column.
        may_fetch (bool): Whether files that are not here may be fetched. Without, data of which
            files are missing counts as absent and nothing is said of it.
    """
    from torch_grama.datasets.errors import DatasetError
    from torch_grama.datasets.load import load_with
    from torch_grama.datasets.storage import Storage

    if not suite.budgets and not entry.suite:
        return ColumnFacts()  # measured on graphs made for it
    if not may_fetch and _is_missing(entry.name):
        return ColumnFacts(ABSENT)
    if entry.suite:
        return ColumnFacts()
    try:
        data = load_with(entry.name, Storage(), entry.options)
    except DatasetError as error:
        print(f"grama: {entry.label} is left out: {error}", file=sys.stderr)
        return ColumnFacts(ABSENT)
    return ColumnFacts("", len(data.folds), _score(suite, entry, data))


def count_runs(suite: Suite, entry: SuiteData) -> dict[str, int]:
    r"""Returns how many runs each budget asks for in a column.

    Args:
        suite (Suite): The experiment.
        entry (SuiteData): Its column, which may belong to another experiment.
    """
    from torch_grama.sweeps.suite import find_suite

    owner = find_suite(entry.suite, suite.folder.parent) if entry.suite else suite
    return {name: budget.runs for name, budget in owner.budgets.items()}


def is_of_others(suite: Suite) -> bool:
    r"""Whether an experiment only gathers the numbers of others."""
    return any(entry.suite for entry in suite.data)


def _is_missing(name: str) -> bool:
    from torch_grama.datasets.catalogue import find
    from torch_grama.datasets.storage import Storage

    entry = find(name)
    return bool(entry.sources) and not Storage().find_source(entry.sources)


def _score(suite: Suite, entry: SuiteData, data: GraphTaskData) -> dict[str, HeldNumber]:
    from torch_grama.experiments.trivial_references import trivial_references
    from torch_grama.report.held_results import HeldNumber, RunResult

    numbers = {}
    for name, score in trivial_references(data).items():
        run = RunResult(score, score, 0, 0, 0, 0, 0.0, "", Path())
        numbers[name] = HeldNumber(suite.name, "", entry.label, name, entry.metric, (run,))
    return numbers
