"""What must be known of a column of an experiment: its folds, its trivial predictors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch_grama.datasets.catalogue import find, load_with
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.storage import Storage
from torch_grama.experiments.trivial_references import trivial_references
from torch_grama.reproduce.suite import Suite, SuiteData

ABSENT = "data not here"


@dataclass(frozen=True)
class ColumnFacts:
    r"""What is known of a column once its data was looked at."""

    absent: str = ""  # why its data cannot be used, in a few words, or empty
    reason: str = ""  # the same in full, where data was to be fetched and could not be
    num_folds: int = 0  # the number of folds
    # the test scores of its trivial predictors by name
    references: Mapping[str, float] = field(default_factory=dict)


def look_at_column(suite: Suite, entry: SuiteData, may_fetch: bool) -> ColumnFacts:
    r"""Loads the data of a column once and takes from it what runs and tables need. Data of which
    files are missing counts as absent unless they may be fetched.
    """
    if not suite.budgets and not entry.suite:
        return ColumnFacts()  # measured on graphs made for it
    if not may_fetch:
        sources = find(entry.name).sources
        if sources and not Storage().find_source(sources):
            return ColumnFacts(ABSENT)
    if entry.suite:
        return ColumnFacts()
    try:
        data = load_with(entry.name, Storage(), entry.options)
    except DatasetError as error:
        return ColumnFacts(ABSENT, str(error))
    # a table of pairs has no row for them
    return ColumnFacts("", "", len(data.folds), {} if entry.pairs else trivial_references(data))


def gather_references(facts: Mapping[str, ColumnFacts]) -> dict[str, dict[str, float]]:
    r"""Turns the facts of columns, by label, into the scores of each trivial predictor by label."""
    scores: dict[str, dict[str, float]] = {}
    for label, known in facts.items():
        for name, score in known.references.items():
            scores.setdefault(name, {})[label] = score
    return scores
