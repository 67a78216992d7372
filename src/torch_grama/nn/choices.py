"""Looks a word up in a closed set, and says what the set is when the word is not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import TypeVar

T = TypeVar("T")


def choose(name: str, word: object, choices: Mapping[str, T]) -> T:
    r"""Returns the entry of :obj:`choices` named by :obj:`word`.

    Args:
        name (str): What the caller calls this argument.
        word (object): What was given.
        choices (mapping): The valid words and their meanings.

    Raises:
        ValueError: If :obj:`word` is not one of them; the message lists all, nearest first.
    """
    if isinstance(word, str) and word in choices:
        return choices[word]
    raise ValueError(
        f"Expected '{name}' to be one of {list_nearest_first(str(word), choices)} (got {word!r})"
    )


def list_nearest_first(word: str, choices: Iterable[str]) -> str:
    r"""Lists words in quotes, the one most similar to :obj:`word` first."""
    ranked = sorted(
        choices, key=lambda choice: -SequenceMatcher(None, word.lower(), choice.lower()).ratio()
    )
    return ", ".join(f"'{choice}'" for choice in ranked)
