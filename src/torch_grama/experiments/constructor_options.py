"""Which options of a constructor can be written in a file or on a command line, and their types."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch_grama.nn.arguments import list_nearest_first

PLAIN_TYPES = (str, int, float, bool, type(None))
Value = str | int | float | bool | None | Sequence[object] | Mapping[str, object]
"""What an option can be: data, never a class, a function or code."""


@dataclass(frozen=True)
class ConstructorOption:
    r"""One option of a constructor.

    Attributes:
        name: Its name.
        annotation: Its type, reduced to what can be written as data.
        default: Its default value; :obj:`inspect.Parameter.empty` where there is none.
        help: What the docstring says about it.
    """

    name: str
    annotation: object
    default: object
    help: str


def constructor_options(
    build: Callable[..., object], skip: Sequence[str] = ()
) -> dict[str, ConstructorOption]:
    r"""Reads the options of a class or function off its signature and docstring.

    An argument whose type cannot be written as data (a module, a callable) is left out; of a type
    such as ``str | Callable`` the part that can remains.

    Args:
        build (callable): A class or function.
        skip (sequence of str, optional): Arguments to leave out. (default: none)

    Returns:
        Name to option, in the order of the signature.
    """
    target = build.__init__ if inspect.isclass(build) else build
    hints = get_type_hints(target)
    texts = argument_texts(build)
    options = {}
    for name, parameter in inspect.signature(build).parameters.items():
        if name in skip or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = reduce_to_data(hints.get(name, type(parameter.default)))
        if annotation is not None:
            options[name] = ConstructorOption(
                name, annotation, parameter.default, texts.get(name, "")
            )
    return options


def reduce_to_data(annotation: object) -> object | None:
    r"""Returns the part of a type that can be written as data, or :obj:`None` if there is none.

    Args:
        annotation (type): The type.
    """
    origin = get_origin(annotation)
    if annotation in PLAIN_TYPES or origin is Literal:
        return annotation
    if origin in (Union, types.UnionType):
        kept = [part for part in map(reduce_to_data, get_args(annotation)) if part is not None]
        without_none = [part for part in kept if part is not type(None)]
        if not without_none:
            return None
        union: Any = kept[0]
        for part in kept[1:]:
            union = union | part
        result: object = union
        return result
    if origin in (list, tuple, dict, Sequence):
        parts = [part for part in get_args(annotation) if part is not Ellipsis]
        if all(reduce_to_data(part) == part for part in parts):
            return annotation
    return None


def describe_type(annotation: object, value: object = "") -> str:
    r"""Says in words what a type allows, the choices nearest to a value first.

    Args:
        annotation (type): The type.
        value (object, optional): What was given. (default: nothing)
    """
    origin = get_origin(annotation)
    if origin is Literal:
        return f"one of {list_nearest_first(str(value), map(str, get_args(annotation)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(part, value) for part in get_args(annotation))
    if origin is dict:
        return "a mapping such as {name: value}"
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a word",
        type(None): "null",
    }
    return names.get(annotation, "") or re.sub(r"^typing\.", "", str(annotation))  # type: ignore[call-overload]


def is_of_type(value: object, annotation: object) -> bool:
    r"""Whether a value is of a type that can be written as data; a whole number is a number too.

    Args:
        value (object): The value.
        annotation (type): The type, such as :func:`constructor_options` finds it.
    """
    origin = get_origin(annotation)
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(annotation))
    if origin in (Union, types.UnionType):
        return any(is_of_type(value, part) for part in get_args(annotation))
    if annotation is float:
        return type(value) in (int, float)
    return type(value) is (origin or annotation)


def argument_texts(build: Callable[..., object]) -> dict[str, str]:
    r"""Returns what a docstring says about each argument or attribute, in one line each.

    Args:
        build (callable): A class or function.
    """
    found: dict[str, str] = {}
    lines = (inspect.getdoc(build) or "").splitlines()
    inside, name = False, ""
    for line in lines:
        if re.fullmatch(r"(Args|Attributes):", line.strip()):
            inside, name = True, ""
        elif inside and line and not line.startswith(" "):
            inside = False
        elif inside:
            start = re.match(r"    (\w+)(?: \([^:]*\))?: (.*)", line)
            if start is not None:
                name = start[1]
                found[name] = start[2]
            elif name and line.strip():
                found[name] += f" {line.strip()}"
    return {name: _plain(text) for name, text in found.items()}


def _plain(text: str) -> str:
    """Docstring markup as a terminal shows it; defaults are added from the signature."""
    text = re.sub(r"\s*\(default: .*\)$", "", text)
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    return text.replace("``", "").replace("\\", "").strip()
