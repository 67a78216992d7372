"""Which options of a constructor can be written in a file or on a command line, and their types."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN_TYPES = (str, int, float, bool, type(None))
Value = str | int | float | bool | None | Sequence[object]
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
