"""Options read off a constructor: only what can be written as data, with its type and text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Literal

import pytest
from torch import nn

from torch_grama.experiments.config import describe_type, options_of, read_value, reduce_to_data
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
    options = options_of(GRAMA)
    assert "running" not in options
    assert options["backbone"].annotation is str
    assert options["gain"].annotation == float | Literal["auto", "wave"] | None
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
    options = options_of(Settings)
    assert {name: option.help for name, option in options.items()} == {
        "size": "How large, in metres.",
        "name": "A word for it.",
    }
    assert list(options_of(Settings, skip=["size"])) == ["name"]
    assert options["name"].default == "x"


def test_open_ended_arguments_are_no_options():
    def build(width: int, *rest: int, **more: int) -> None: ...

    assert list(options_of(build)) == ["width"]
    assert options_of(build)["width"].help == ""


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [(float, "1e-2", 0.01), (float, 2, 2.0), (int | None, None, None), (bool, "false", False),
     (dict[str, int], {"a": 1}, {"a": 1}), (tuple[float, float], "[1, 2]", (1.0, 2.0))],
)  # fmt: skip
def test_values_become_what_their_type_says(annotation, value, expected):
    found = read_value(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [(int, 2.5, "a whole number"), (float, True, "a number"), (float, None, "a number"),
     (Literal["ab", "cd"], "cb", "one of 'cd', 'ab'|one of 'ab', 'cd'")],
)  # fmt: skip
def test_values_that_cannot_be_are_refused_in_words(annotation, value, message):
    with pytest.raises(ValueError, match=message):
        read_value(annotation, value)


def test_types_in_words():
    assert describe_type(int) == "a whole number"
    assert describe_type(float | None) == "a number or null"
    assert describe_type(list[str]) == "list[str]"
