"""Targets as users write them, turned into classes, flags or numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.options import Options, OwnKind

Where = Callable[[int], str]
"""Says where an item lies: the file and its line or position."""


@dataclass(frozen=True)
class Labels:
    r"""The targets of all items.

    Attributes:
        kind: The kind of target.
        y: Class numbers ``[M]`` (-1 without label), or float32 ``[M, T]`` (NaN without label).
        labelled: Which items have a label ``[M]``.
        num_outputs: Number of classes, flags or targets.
        class_names: What classes or flags are called; empty for a regression.
    """

    kind: OwnKind
    y: Tensor
    labelled: NDArray[np.bool_]
    num_outputs: int
    class_names: tuple[str, ...] = ()


def labels_from_numbers(
    values: NDArray[np.generic], where: Where, options: Options, *, flags: bool = True
) -> Labels:
    r"""Reads targets from an array ``[M]`` or ``[M, T]``.

    A vector of integers holds class numbers (-1: no label), a vector of other numbers a quantity
    (NaN: no label). A matrix of zeros and ones holds flags, any other matrix several quantities.

    Args:
        values (ndarray): The targets.
        where (callable): Says where an item lies.
        options (Options): What the user said.
        flags (bool, optional): Whether zeros and ones with a decimal point are flags too.
            (default: :obj:`True`)

    Returns:
        The targets.

    Raises:
        DatasetError: A label is outside the classes, infinite, or half missing.
    """
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2) or values.shape[-1] == 0:
        raise DatasetError(
            f"{where(0)} has a label that is no number or vector of numbers (the labels are "
            f"{values.dtype} of the shape {tuple(values.shape)}): store one row an item."
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    table = values.reshape(len(values), -1).astype(np.float64)
    integers = values.dtype.kind in "biu"
    labelled: NDArray[np.bool_] = np.logical_not(np.isnan(table).all(axis=1))
    with np.errstate(over="ignore"):
        y = torch.from_numpy(table.astype(np.float32))
    for item in np.flatnonzero(labelled & ~np.isfinite(y.numpy()).all(axis=1))[:1]:
        raise DatasetError(
            f"{where(int(item))} has a label that is infinite or partly missing: correct it, or "
            f"leave the label out."
        )
    kind: OwnKind | None = options.kind
    if kind is None:
        if values.ndim == 1:
            kind = "classification" if integers or options.classes else "regression"
        else:
            binary = np.isin(table[labelled], (0.0, 1.0)).all()
            kind = "multilabel" if binary and (integers or flags) else "regression"
    if kind == "classification":
        if values.ndim == 2:
            raise DatasetError(
                f"{where(0)} has {table.shape[1]} labels where one class was asked for: ask for "
                f"kind 'multilabel' or 'regression', or store class numbers."
            )
        labelled &= table[:, 0] != -1
        return _class_numbers(table[:, 0], labelled, where, options)
    if not labelled.any():
        raise DatasetError(f"{where(0)} and all that follow have no label: fill in the labels.")
    if kind == "regression":
        return Labels("regression", y, labelled, y.size(1))
    for item in np.flatnonzero(labelled & ~np.isin(table, (0.0, 1.0)).all(axis=1))[:1]:
        raise DatasetError(
            f"{where(int(item))} has the flags {values[item].tolist()}: each must be 0 or 1."
        )
    return Labels("multilabel", y, labelled, y.size(1), _flag_names(y.size(1), options))


def no_labels(count: int, options: Options) -> Labels:
    r"""Stands for the targets of items whose labels are not read.

    Args:
        count (int): Number of items.
        options (Options): What the user said.
    """
    return Labels(
        options.kind or "classification",
        torch.full((count,), -1),
        np.zeros(count, dtype=bool),
        max(1, len(options.classes)),
        options.classes,
    )


def labels_from_tags(
    tags: Sequence[Sequence[str] | None], where: Where, options: Options
) -> Labels:
    r"""Reads a list of names an item: each name is a flag that the item carries.

    Args:
        tags (sequence): The names, or :obj:`None` for an item without label.
        where (callable): Says where an item lies.
        options (Options): What the user said.

    Returns:
        The targets, of kind ``multilabel``.

    Raises:
        DatasetError: A name is not among the classes the user named, or another kind was asked
            for.
    """
    if options.kind not in (None, "multilabel"):
        raise DatasetError(
            f"{where(0)} has a list of names where a {options.kind} was asked for: ask for kind "
            f"'multilabel', or write one label."
        )
    names = options.classes or tuple(sorted({tag for item in tags for tag in item or ()}))
    number = {name: column for column, name in enumerate(names)}
    if not names:
        raise DatasetError(f"{where(0)} and all that follow have no label: fill in the labels.")
    y = np.zeros((len(tags), len(names)), dtype=np.float32)
    for position, item in enumerate(tags):
        if item is None:
            y[position] = np.nan
        for tag in item or ():
            if tag not in number:
                raise outside_classes(tag, names, where(position))
            y[position, number[tag]] = 1.0
    labelled = np.array([item is not None for item in tags], dtype=bool)
    return Labels("multilabel", torch.from_numpy(y), labelled, len(names), names)


def _class_numbers(
    values: NDArray[np.float64], labelled: NDArray[np.bool_], where: Where, options: Options
) -> Labels:
    if not labelled.any():
        raise DatasetError(f"{where(0)} and all that follow have no label: fill in the labels.")
    present = values[labelled]
    distinct = len(np.unique(present))
    # A class without items is odd, many are a mistake in one of the numbers.
    count = len(options.classes) or min(int(present.max()) + 1, max(2 * distinct, distinct + 10))
    wrong = labelled & ((values < 0) | (values >= count) | (values != np.floor(values)))
    for item in np.flatnonzero(wrong)[:1]:
        raise DatasetError(
            f"{where(int(item))} has the label {values[item]:g}, which is outside the classes 0 to "
            f"{count - 1}: correct it, or use -1 for an item without label."
        )
    y = torch.from_numpy(np.where(labelled, values, -1).astype(np.int64))
    names = options.classes or tuple(str(number) for number in range(count))
    return Labels("classification", y, labelled, count, names)


def _flag_names(count: int, options: Options) -> tuple[str, ...]:
    if options.classes and len(options.classes) != count:
        raise DatasetError(
            f"Expected as many 'classes' as there are flags (got {len(options.classes)} names for "
            f"{count} flags): name each one."
        )
    return options.classes or tuple(str(number) for number in range(count))


def outside_classes(label: str, names: Sequence[str], where: str) -> DatasetError:
    r"""Says that a label is none of the classes.

    Args:
        label (str): The label.
        names (sequence of str): The classes.
        where (str): Where the label stands.
    """
    shown = ", ".join(f"'{name}'" for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return DatasetError(
        f"{where} has the label '{label}', which is outside the classes {shown}: correct it, or "
        f"add it to 'classes'."
    )
