"""Options, however they were written: on a command line, in a file or by a caller."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from torch_grama.datasets.entry import (
    ACCURACY,
    AVERAGE_PRECISION,
    LOG10_MSE,
    MAE,
    MSE,
    ROC_AUC,
)
from torch_grama.datasets.splits import DEFAULT_FRACTIONS, Fractions, check_fractions
from torch_grama.datasets.task_data import Level, Metric

OptionKind = Literal["word", "words", "flag", "whole", "number", "numbers"]

_QUOTES = ", in quotes if YAML reads it as something else"
_EXPECTED: dict[OptionKind, str] = {
    "word": f"a word{_QUOTES}",
    "words": f"a word or a list of words{_QUOTES}",
    "flag": "true or false",
    "whole": "a whole number",
    "number": "a number",
    "numbers": "a list of numbers",
}
_FLAGS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


def parse_text(text: str) -> str | list[str]:
    r"""Takes ``[a, b]`` on a command line apart; any other text stays as it is."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return text
    inside = text[1:-1].strip()
    return [item.strip().strip("'\"") for item in inside.split(",")] if inside else []


def nearest(word: str, known: Iterable[str]) -> str:
    r"""Asks whether another word was meant; nothing where none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f" (did you mean '{near[0]}'?)" if near else ""


def read_option(value: object, kind: OptionKind, name: str) -> object:
    r"""Brings a value into the type that an option needs; texts and numbers are read as either.

    Args:
        value (object): What was given: text, or what YAML or a caller made of it.
        kind (str): What the option needs.
        name (str): What the option is called in an error.

    Raises:
        ValueError: The value cannot be read so.
    """
    if kind in ("words", "numbers"):
        several = isinstance(value, list | tuple)
        if several or kind == "words":
            items = value if isinstance(value, list | tuple) else (value,)
            read = tuple(_read(item, "word" if kind == "words" else "number") for item in items)
            if None not in read:
                return read
    else:
        single = _read(value, kind)
        if single is not None:
            return single
    raise ValueError(f"Expected {name} to be {_EXPECTED[kind]} (got {value!r})")


def _read(value: object, kind: OptionKind) -> str | int | float | bool | None:
    text = str(value) if isinstance(value, str | int | float) else None
    if kind == "flag":
        return _FLAGS.get(text.lower()) if isinstance(value, str | bool) and text else None
    if text is None or isinstance(value, bool) or kind == "word":
        return None if isinstance(value, bool) else text
    if kind == "whole":
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


OwnKind = Literal["classification", "multilabel", "regression"]

METRICS = {m.name: m for m in (ACCURACY, ROC_AUC, AVERAGE_PRECISION, MAE, MSE, LOG10_MSE)}
OPTION_KINDS: dict[str, OptionKind] = {
    **dict.fromkeys(("level", "kind", "metric"), "word"),
    **dict.fromkeys(("label", "classes", "ignore"), "words"),
    **dict.fromkeys(("directed", "categorical", "stratify", "targets"), "flag"),
    "fractions": "numbers",
    "seed": "whole",
}
"""What each option of :func:`~torch_grama.datasets.own_data.load_path` is read as."""
_DEFAULT_METRICS: dict[OwnKind, str] = {
    "classification": "accuracy",
    "multilabel": "average_precision",
    "regression": "mae",
}


@dataclass(frozen=True)
class Options:
    r"""What a user may say about their own data: the options of ``load_path``, checked."""

    level: Level | None = None
    kind: OwnKind | None = None
    label: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    directed: bool = False
    categorical: bool = False
    metric: str | None = None
    fractions: Fractions = DEFAULT_FRACTIONS
    seed: int = 0
    stratify: bool = True
    targets: bool = True

    def __post_init__(self) -> None:
        _check_word("level", self.level, ("node", "graph"))
        _check_word("kind", self.kind, tuple(_DEFAULT_METRICS))
        _check_word("metric", self.metric, tuple(METRICS))
        check_fractions(self.fractions)
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"Expected 'classes' to be distinct (got {self.classes})")
        if self.classes and self.kind == "regression":
            raise ValueError("Expected no 'classes' for a regression; drop one of the two")

    def metric_for(self, kind: OwnKind) -> Metric:
        """Returns the metric that was asked for, or the usual one."""
        return METRICS[self.metric or _DEFAULT_METRICS[kind]]


def _check_word(option: str, word: str | None, allowed: tuple[str, ...]) -> None:
    if word is None or word in allowed:
        return
    hint = nearest(word, allowed)
    raise ValueError(f"Expected '{option}' to be one of {', '.join(allowed)} (got '{word}'){hint}")
