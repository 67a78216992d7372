"""Divisions that the user's files state, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.own_data.labels import Labels, Where
from torch_grama.datasets.splits import Split

_WORDS = {
    "train": 0,
    "training": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "test": 2,
    "testing": 2,
}
_NAMES = ("train", "val", "test")


def split_from_parts(parts: NDArray[np.int64], labels: Labels, where: Where, source: str) -> Split:
    r"""Turns a part number an item (-1: none) into a division.

    Args:
        parts (ndarray): 0 for train, 1 for validation, 2 for test ``[M]``.
        labels (Labels): The targets.
        where (callable): Says where an item lies.
        source (str): What states the division, for an error.

    Raises:
        DatasetError: A part is empty, or has an item without label.
    """
    for item in np.flatnonzero((parts >= 0) & ~labels.labelled)[:1]:
        raise DatasetError(
            f"{where(int(item))} is in '{_NAMES[parts[item]]}' but has no label: fill in the "
            f"label, or take it out of the split."
        )
    for number, name in enumerate(_NAMES):
        if not (parts == number).any():
            raise DatasetError(
                f"{source} leaves '{name}' empty: put items into it, or remove the split to have "
                f"one made."
            )
    return Split(*(np.flatnonzero(parts == number) for number in range(3)))


def parts_from_words(words: Sequence[str], where: Where) -> NDArray[np.int64]:
    r"""Reads the words train, val and test; an empty word is no part."""
    numbers = {"": -1, **_WORDS}
    parts = np.empty(len(words), dtype=np.int64)
    for item, word in enumerate(words):
        number = numbers.get(word.strip().lower())
        if number is None:
            raise DatasetError(
                f"{where(item)} has the split '{word}': write train, val or test, or leave it "
                f"empty."
            )
        parts[item] = number
    return parts


def splits_from_masks(
    masks: Sequence[NDArray[np.generic]], labels: Labels, where: Where, source: str
) -> list[Split]:
    r"""Turns three masks ``[K, M]`` into K divisions.

    Args:
        masks (sequence of ndarray): Train, validation and test, true or 1 for an item in it.
        labels (Labels): The targets.
        where (callable): Says where an item lies.
        source (str): What states the divisions, for an error.

    Raises:
        DatasetError: The masks do not fit the data, overlap, or leave a part empty.
    """
    count = len(labels.labelled)
    shapes = [tuple(mask.shape) for mask in masks]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or shapes[0][1] != count or not shapes[0][0]:
        raise DatasetError(
            f"{source} has masks of the shapes {', '.join(map(str, shapes))}: store three masks "
            f"with one value for each of the {count} items, all of the same shape."
        )
    flags = [mask.astype(np.float64) for mask in masks]
    if any(mask.dtype.kind not in "biu" for mask in masks) or not np.isin(flags, (0, 1)).all():
        raise DatasetError(f"{source} has masks that are not true or false: store booleans.")
    splits = []
    for fold in range(shapes[0][0]):
        chosen = np.stack([mask[fold] for mask in flags]) == 1
        for item in np.flatnonzero(chosen.sum(axis=0) > 1)[:1]:
            names = " and ".join(f"'{_NAMES[part]}'" for part in np.flatnonzero(chosen[:, item]))
            raise DatasetError(
                f"{where(int(item))} is in {names} of split {fold}: keep it in one of them."
            )
        parts = np.where(chosen.any(axis=0), chosen.argmax(axis=0), -1)
        splits.append(split_from_parts(parts, labels, where, f"Split {fold} of {source}"))
    return splits
