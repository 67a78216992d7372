"""The experiments of the paper that one command runs."""

from __future__ import annotations

from markdown_text import code, plain, table
from torch_grama.reproduce.suite import CONFIGS, Budget, Suite, list_suites


def describe_suites() -> str:
    """Returns one table of all suites with what the budgets mean."""
    rows = [
        (
            code(suite.name),
            plain(suite.about),
            f"{len(suite.data)} × {len(suite.models)}",
            *(budget_text(suite, word) for word in ("smoke", "short", "full")),
        )
        for suite in list_suites(CONFIGS)
    ]
    header = ["Name", "What it asks", "Columns × rows", "`smoke`", "`short`", "`full`"]
    return table(header, rows)


def budget_text(suite: Suite, word: str) -> str:
    """Says how many runs and epochs a cell gets."""
    budget: Budget | None = suite.budgets.get(word)
    if budget is None:
        return "–"
    epochs = budget.changes.get("trainer.max_epochs", suite.defaults.get("trainer.max_epochs"))
    runs = count(budget.runs, "run")
    return runs if epochs is None else f"{runs}, {count(int(str(epochs)), 'epoch')}"


def count(number: int, thing: str) -> str:
    """Writes a number of things."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
