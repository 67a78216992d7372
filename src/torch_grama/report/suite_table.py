"""The table of one experiment, from whatever result files there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch_grama.report.comparison import Column, Comparison, compare
from torch_grama.report.held_results import HeldNumber
from torch_grama.report.paper_numbers import read_paper_numbers


def build_table(
    name: str,
    title: str,
    columns: Sequence[Column],
    tables: Sequence[str],
    held: Sequence[HeldNumber],
    models: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    references: Mapping[str, Mapping[str, HeldNumber]] | None = None,
    budget: str | None = None,
    notes: Sequence[str] = (),
    only: Sequence[str] = (),
) -> Comparison:
    r"""Lays our numbers of one experiment beside the paper's.

    Args:
        name (str): The experiment.
        title (str): The heading.
        columns (sequence of Column): The data sets.
        tables (sequence of str): The tables of the paper.
        held (sequence of HeldNumber): All numbers that there are.
        models (sequence of str, optional): Rows to show although the paper has none.
            (default: none)
        sources (mapping, optional): For a summary, the experiment that a column is taken from.
            (default: :obj:`None`)
        references (mapping, optional): Trivial predictors. (default: none)
        budget (str, optional): The budget to show. (default: the largest of each cell)
        notes (sequence of str, optional): Sentences to print below. (default: none)
        only (sequence of str, optional): The only rows to show; a summary has them in this order,
            since the tables that it is taken from differ in theirs. (default: all)
    """
    paper = [number for table in tables for number in read_paper_numbers(table)]
    own = [
        replace(number, suite=name)
        for number in held
        if number.suite == (sources or {}).get(number.data, name)
    ]
    if only:
        paper = [number for number in paper if number.model in only]
        own = [number for number in own if number.model in only]
    table = compare(name, title, columns, paper, own, models, references, budget, notes)
    if sources and only:
        places = {model: place for place, model in enumerate(only)}
        table = replace(table, rows=tuple(sorted(table.rows, key=lambda row: places[row.model])))
    return table
