"""Options read off a constructor: only what can be written as data, with its type and text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Literal

import pytest
from torch import nn

from torch_grama.experiments.constructor_options import (
    argument_texts,
    constructor_options,
    reduce_to_data,
)
from torch_grama.nn import GRAMA


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, int),
        (float | None, float | None),
        (Literal["a", "b"], Literal["a", "b"]),
        (str | Callable[[int], nn.Module] | None, str | None),
        (str | nn.Module, str),
        (nn.Module, None),
        (nn.Module | None, None),
        (Callable[[int], int], None),
        (tuple[int, ...], tuple[int, ...]),
        (Sequence[str], Sequence[str]),
        (list[nn.Module], None),
        (dict[str, int], dict[str, int]),
    ],
)
def test_types_are_reduced_to_data(annotation, expected):
    assert reduce_to_data(annotation) == expected


def test_modules_and_callables_are_never_options():
    options = constructor_options(GRAMA)
    assert "running" not in options
    assert options["backbone"].annotation is str
    assert options["gain"].annotation == float | Literal["auto"] | None
    assert options["in_channels"].default is Parameter.empty
    assert options["num_blocks"].default == 2
    assert options["num_blocks"].help == "Number S of blocks."


@dataclass
class Settings:
    r"""Some.

    Attributes:
        size: How large,
            in metres.
        name (str, optional): A ``word`` for it. (default: :obj:`"x"`)

    More:
        other: nothing.
    """

    size: int
    name: str = "x"


def test_a_dataclass_and_its_attributes():
    assert argument_texts(Settings) == {"size": "How large, in metres.", "name": "A word for it."}
    options = constructor_options(Settings, skip=["size"])
    assert list(options) == ["name"]
    assert options["name"].default == "x"


def test_open_ended_arguments_are_no_options():
    def build(width: int, *rest: int, **more: int) -> None: ...

    assert list(constructor_options(build)) == ["width"]
    assert argument_texts(build) == {}
