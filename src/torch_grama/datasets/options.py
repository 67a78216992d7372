"""Options, however they were written: on a command line, in a file or by a caller."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch_grama.datasets.entry import METRICS
from torch_grama.datasets.task_data import Level, Metric

OptionKind = Literal["word", "words", "flag", "whole", "number", "numbers"]
Fractions = tuple[float, float, float]

# One item of a list: in quotes, or up to the next comma.
_ITEM = re.compile(r"\s*(?:\"[^\"]*\"|'[^']*')\s*(?=,|$)|[^,]+")
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
    r"""Takes ``[a, b]`` on a command line apart; any other text stays as it is.

    Example:
        >>> parse_text("age"), parse_text("[age, 'last, first']")
        ('age', ['age', 'last, first'])
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return _unquoted(text)
    return [_unquoted(item.strip()) for item in _ITEM.findall(text[1:-1]) if item.strip()]


def parse_options(words: Iterable[str]) -> dict[str, str | list[str]]:
    r"""Reads ``key=value`` pairs; a key that comes again adds to a list.

    What a value means is read where its option is known.
    """
    options: dict[str, str | list[str]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ValueError(f"Expected an option of the form key=value (got '{word}')")
        key, value = key.strip().replace("-", "_"), parse_text(text)
        before = options.get(key)
        if before is not None:
            both = ([item] if isinstance(item, str) else item for item in (before, value))
            value = [word for items in both for word in items]
        options[key] = value
    return options


def list_option(words: Iterable[str]) -> str:
    r"""Writes a list as :func:`parse_text` reads it.

    Example:
        >>> list_option(["age", "last, first"])
        "[age,'last, first']"
    """
    return f"[{','.join(f'{word!r}' if ',' in word else word for word in words)}]"


def join_options(words: Iterable[str]) -> str:
    r"""Writes ``key=value`` pairs for a command line, those of one key together.

    Example:
        >>> join_options(["ignore=[a]", "missing=mean", "ignore=[last name]"])
        "-o 'ignore=[a,last name]' -o missing=mean"
    """
    joined = []
    for key, value in parse_options(words).items():
        text = value if isinstance(value, str) else list_option(dict.fromkeys(value))
        joined.append(f"-o {shlex.quote(f'{key}={text}')}")
    return " ".join(joined)


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def nearest(word: str, known: Iterable[str]) -> str:
    r"""Asks whether another word was meant; nothing where none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f" (did you mean '{near[0]}'?)" if near else ""


def read_option(value: object, kind: OptionKind, name: str) -> object:
    r"""Brings a value into the type that an option needs; texts and numbers are read as either."""
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

OPTION_KINDS: dict[str, OptionKind] = {
    **dict.fromkeys(("level", "kind", "metric", "id", "source", "target"), "word"),
    **dict.fromkeys(("missing", "decimal", "unseen"), "word"),
    **dict.fromkeys(("label", "classes", "ignore", "words", "numbers", "missing_words"), "words"),
    **dict.fromkeys(("directed", "categorical", "stratify", "targets", "day_first"), "flag"),
    "fractions": "numbers",
    "seed": "whole",
}
"""What each option of :func:`~torch_grama.datasets.own_data.load_path` is read as."""
_DEFAULT_METRICS: dict[OwnKind, str] = {
    "classification": "accuracy",
    "multilabel": "average_precision",
    "regression": "mae",
}
_WORDS: dict[str, Collection[str]] = {
    "level": ("node", "graph"),
    "kind": _DEFAULT_METRICS,
    "metric": METRICS,
    "missing": ("mean", "zero", "refuse"),
    "decimal": (".", ","),
    "unseen": ("zeros", "refuse"),
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
    fractions: Fractions = (0.6, 0.2, 0.2)
    seed: int = 0
    stratify: bool = True
    targets: bool = True
    id: str | None = None
    source: str | None = None
    target: str | None = None
    words: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    missing: Literal["mean", "zero", "refuse"] = "mean"
    missing_words: tuple[str, ...] = ()
    decimal: Literal[".", ","] | None = None
    day_first: bool | None = None
    unseen: Literal["zeros", "refuse"] = "zeros"

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Options:
        """Reads options as users write them; :obj:`None` stands for the default."""
        read = {}
        for name, value in given.items():
            if name not in OPTION_KINDS:
                raise TypeError(f"There is no option '{name}'{nearest(name, OPTION_KINDS)}")
            if value is not None:
                read[name] = read_option(value, OPTION_KINDS[name], f"'{name}'")
        return cls(**read)  # type: ignore[arg-type]  # each is of the kind it was read as

    def __post_init__(self) -> None:
        for option, allowed in _WORDS.items():
            word = getattr(self, option)
            if word is not None and word not in allowed:
                raise ValueError(
                    f"Expected '{option}' to be one of {', '.join(allowed)} (got '{word}')"
                    f"{nearest(word, allowed)}"
                )
        check_fractions(self.fractions)
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"Expected 'classes' to be distinct (got {self.classes})")
        if self.classes and self.kind == "regression":
            raise ValueError("Expected no 'classes' for a regression; drop one of the two")

    def metric_for(self, kind: OwnKind) -> Metric:
        return METRICS[self.metric or _DEFAULT_METRICS[kind]]


def check_fractions(fractions: Sequence[float]) -> None:
    r"""Refuses fractions that are not three positive numbers which sum to one."""
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(
            f"Expected 'fractions' to be three positive numbers that sum to 1, such as "
            f"(0.6, 0.2, 0.2) (got {tuple(fractions)})"
        )
