"""Options that can be written in a file or on a command line: their types, texts and values."""

from __future__ import annotations

import inspect
import re
import types
from argparse import ArgumentError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, Union, get_args, get_origin

from docstring_parser import DocstringStyle, parse
from jsonargparse import ArgumentParser, Namespace

from torch_grama.nn.arguments import list_nearest_first

Value = str | int | float | bool | None | Sequence[object] | Mapping[str, object]
"""What an option can be: data, never a class, a function or code."""

_IN_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    type(None): "null",
}


@dataclass(frozen=True)
class Option:
    r"""One option of a class or function."""

    annotation: object  # its type, reduced to what can be written as data
    default: object  # its default value; empty where there is none
    help: str  # what the docstring says about it


def options_of(build: Callable[..., object], skip: Sequence[str] = ()) -> dict[str, Option]:
    r"""Reads the options of a class or function off its signature and docstring, in their order.

    An argument whose type cannot be written as data (a module, a callable) is left out; of a type
    such as ``str | Callable`` the part that can remains.
    """
    return {name: option for name, option in _read_options(build).items() if name not in skip}


@cache
def _read_options(build: Callable[..., object]) -> dict[str, Option]:
    texts = parse(inspect.getdoc(build) or "", DocstringStyle.GOOGLE).params
    helps = {text.arg_name: _plain(text.description or "") for text in texts}
    options = {}
    for name, parameter in inspect.signature(build, eval_str=True).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = reduce_to_data(parameter.annotation)
        if annotation is not None:
            options[name] = Option(annotation, parameter.default, helps.get(name, ""))
    return options


def reduce_to_data(annotation: object) -> object | None:
    r"""Returns the part of a type that can be written as data, or :obj:`None` if there is none."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation in _IN_WORDS or origin is Literal:
        return annotation
    if origin in (Union, types.UnionType):
        kept: list[Any] = [part for part in map(reduce_to_data, parts) if part is not None]
        return reduce(or_, kept) if set(kept) - {type(None)} else None
    if origin in (list, tuple, dict, Sequence):
        is_data = all(reduce_to_data(part) == part for part in parts if part is not Ellipsis)
        return annotation if is_data else None
    return None


def read_value(annotation: object, value: object) -> object:
    r"""Returns a value as the type of its option has it; text, as on a command line, is read.
    Raises a :class:`ValueError` that says what can be, the nearest choices first.
    """
    if type(value) is annotation and not isinstance(value, str):
        return value
    parser = _build_parser(annotation, str(annotation))
    try:
        if value is None and type(None) not in get_args(annotation):
            raise ArgumentError(None, "the parser lets null pass for every type")
        if isinstance(value, str):
            found = parser.parse_args([f"--value={value}"]).value
        else:
            found = parser.parse_object({"value": value}).value
    except (ArgumentError, SystemExit) as error:
        raise ValueError(describe_type(annotation, value)) from error
    return found.as_dict() if isinstance(found, Namespace) else found


@cache
def _build_parser(annotation: object, _order: str) -> ArgumentParser:
    """Kept, for it takes long to build; unions of the same types in another order are equal."""
    parser = ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--value", type=annotation)
    return parser


def describe_type(annotation: object, value: object = "") -> str:
    r"""Says in words what a type allows, the choices nearest to a value first."""
    origin = get_origin(annotation)
    if origin is Literal:
        return f"one of {list_nearest_first(str(value), map(str, get_args(annotation)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(part, value) for part in get_args(annotation))
    if origin is dict:
        return "a mapping such as {name: value}"
    return _IN_WORDS.get(annotation) or str(annotation)  # type: ignore[call-overload]


def _plain(text: str) -> str:
    """Docstring markup as a terminal shows it; defaults are added from the signature."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\s*\(default: .*\)$", "", text)
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    return text.replace("``", "").replace("\\", "").strip()
