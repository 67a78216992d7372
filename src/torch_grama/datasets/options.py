"""Values of options, however they were written: on a command line, in a file or by a caller."""

from __future__ import annotations

import math
import re
from typing import Literal

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
