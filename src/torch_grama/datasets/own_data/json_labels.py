"""Targets as they stand in JSON: numbers, words, and lists of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import (
    Labels,
    Where,
    labels_from_numbers,
    labels_from_tags,
)
from torch_grama.datasets.own_data.options import Options
from torch_grama.datasets.own_data.text_labels import labels_from_text


def read_json_labels(values: Sequence[object], where: Where, options: Options) -> Labels:
    r"""Reads one target a graph.

    Words and truth values are classes, whole numbers are classes if there are few of them, other
    numbers a quantity (see :func:`labels_from_text`). A list of words is a set of flags, a list of
    zeros and ones likewise, any other list of numbers several quantities.

    Args:
        values (sequence): The targets; :obj:`None` for a graph without label.
        where (callable): Says where a graph lies.
        options (Options): What the user said.

    Returns:
        The targets.

    Raises:
        DatasetError: A target is of another kind than the first one.
    """
    lists = [isinstance(value, list) for value in values if value is not None]
    if any(lists):
        return _read_lists(values, where, options)
    cells = []
    for graph, value in enumerate(values):
        if value is not None and not isinstance(value, str | int | float):
            raise DatasetError(
                f"{where(graph)} has a label that is a {type(value).__name__}: write a number, a "
                f"word, or a list of them."
            )
        cells.append(_cell(value))
    if options.kind is None and any(isinstance(value, str | bool) for value in values):
        options = replace(options, kind="classification")
    return labels_from_text(cells, where, options)


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else repr(value)


def _read_lists(values: Sequence[object], where: Where, options: Options) -> Labels:
    first = next((value for value in values if isinstance(value, list) and value), [""])
    words = isinstance(first[0], str)
    length = len(first)
    for graph, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, list) or (not words and len(value) != length):
            raise DatasetError(
                f"{where(graph)} has a label of another length than the others, which are lists of "
                f"{length}: write them alike."
            )
        if not all(_fits(item, words) for item in value):
            raise DatasetError(
                f"{where(graph)} has a list of labels with something else than "
                f"{'words' if words else 'numbers'} in it: write them alike."
            )
    if words:
        return labels_from_tags(values, where, options)  # type: ignore[arg-type]
    if length == 1:
        single = [value[0] if isinstance(value, list) else None for value in values]
        return labels_from_text([_cell(value) for value in single], where, options)
    rows = [[np.nan] * length if value is None else value for value in values]
    whole = all(isinstance(item, int) for value in values for item in _items(value))
    return labels_from_numbers(np.array(rows, dtype=np.float64), where, options, flags=whole)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _fits(item: object, words: bool) -> bool:
    if words:
        return isinstance(item, str)
    return isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < 1e300
