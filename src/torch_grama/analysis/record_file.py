"""Records of plain numbers to a JSON file and back, with every value checked."""

from __future__ import annotations

import dataclasses
import json
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def write_record(record: object, path: str | os.PathLike[str]) -> None:
    r"""Writes a dataclass of plain values as JSON, at once or not at all.

    Args:
        record (object): A dataclass of numbers, words, lists, dictionaries and such dataclasses.
        path (str or Path): The file.

    Raises:
        ValueError: If a number is infinite or undefined, which JSON cannot say.
    """
    path = Path(path)
    text = json.dumps(
        dataclasses.asdict(record),  # type: ignore[call-overload]
        allow_nan=False,
        separators=(",", ":"),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        unfinished.write_text(text + "\n", encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_record(kind: type[Record], path: str | os.PathLike[str]) -> Record:
    r"""Reads what :func:`write_record` wrote.

    Args:
        kind (type): The dataclass.
        path (str or Path): The file.

    Raises:
        ValueError: If the file is no JSON, or does not hold such a record; the place is named.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"Expected JSON in {path} (got: {error}); write it again") from error
    try:
        record: Record = _decode(kind, value, kind.__name__)
    except ValueError as error:
        raise ValueError(f"Expected {path} to hold {kind.__name__}: {error}") from error
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the number {name}")


def _decode(kind: Any, value: Any, place: str) -> Any:
    r"""A value of the annotated type, or an error that names its place."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, place)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _decode(inner, value, place)
    if origin is list and isinstance(value, list):
        return [_decode(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: _decode(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    name = kind.__name__ if isinstance(kind, type) and origin is None else str(kind)
    raise ValueError(f"expected {name} at {place} (got {type(value).__name__})")


def _decode_dataclass(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an object at {place} (got {type(value).__name__})")
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    missing = sorted(set(names) - set(value))
    unknown = sorted(set(value) - set(names))
    if missing or unknown:
        raise ValueError(
            f"expected the entries of {kind.__name__} at {place} "
            f"(missing: {missing or 'none'}, unknown: {unknown or 'none'})"
        )
    return kind(**{name: _decode(hints[name], value[name], f"{place}.{name}") for name in names})
