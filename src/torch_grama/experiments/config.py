"""The configuration of one run: plain data, typed by what it configures."""

from __future__ import annotations

import inspect
import re
import types
from argparse import ArgumentError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from docstring_parser import DocstringStyle, parse
from jsonargparse import ArgumentParser, Namespace

from torch_grama.runs.words import name_nearest
from torch_grama.training.optimizer import OptimizerSettings, ScheduleSettings
from torch_grama.training.scores import LossName
from torch_grama.training.trainer_settings import TrainerSettings

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
        return f"one of {name_nearest(str(value), map(str, get_args(annotation)))}"
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


Settings = Mapping[str, object]
"""Values under dotted names, such as ``optimizer.lr``."""

OptionValue = str | int | float | bool | list[str] | list[float]
"""The value of an option of a data set."""

Part = TypeVar("Part")


class ConfigError(ValueError):
    r"""A configuration names something that does not exist, or gives a value that cannot be."""


@dataclass(frozen=True)
class DataConfig:
    r"""Which data, and which encodings of structure to add.

    Attributes:
        name: A name that ``grama data list`` prints, or the path of your own files.
        fold: Which of the official train / validation / test splits.
        root: Folder for downloaded and prepared data.
        rwse: Steps of the random-walk structural encoding; 0: none.
        lap_pe: Eigenvectors of the Laplacian positional encoding; 0: none.
        local_degrees: Append the degrees of each node and its neighbours to the features.
        standardize: Bring features and quantities to be predicted to mean 0 and deviation 1, by
            the training part; predictions are in the units of the data all the same. ``rows``
            divides the features of each node by their length instead, which suits many sparse ones;
            ``largest`` divides quantities by the largest of the training part, and nothing else.
        options: Options of the data set, such as the variant; ``--data.options.variant carry``.
    """

    name: str
    fold: int = 0
    root: str | None = None
    rwse: int = 0
    lap_pe: int = 0
    local_degrees: bool = False
    standardize: bool | Literal["rows", "largest"] = False
    options: dict[str, OptionValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("fold", "rwse", "lap_pe"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"Expected 'data.{name}' to be at least 0 (got {getattr(self, name)})"
                )

    @classmethod
    def from_settings(cls, settings: Settings) -> DataConfig:
        r"""Takes what concerns the data from values as in :meth:`RunConfig.from_settings`."""
        if not settings.get("data.name"):
            raise ConfigError(
                "Expected a data set: give `--data` a name that `grama data list` prints or the "
                "path of your own files"
            )
        return _make(cls, settings, "data")


@dataclass(frozen=True)
class ModelConfig:
    r"""Which model, and its options.

    Attributes:
        name: A word that ``grama models`` lists.
        hidden_channels: Width inside.
        options: Its other options, by the names of the constructor.
    """

    name: str = "grama"
    hidden_channels: int = 64
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskConfig:
    r"""What is minimised.

    Attributes:
        loss: The loss; defaults to that of the task.
        class_weights: Weight of each class in the loss; ``balanced``: all count the same.
    """

    loss: LossName | None = None
    class_weights: Literal["balanced"] | list[float] | None = None


@dataclass(frozen=True)
class RunConfig:
    r"""All that decides what a run computes.

    Attributes:
        data: The data set.
        model: The model.
        task: The loss.
        optimizer: The optimiser.
        schedule: The course of the learning rate.
        trainer: Epochs, batches, device and the like.
        seed: Where all randomness starts: weights, order of batches, dropout.
        test: Whether the test part is read, once, at the end.
    """

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)
    seed: int = 0
    test: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"Expected 'seed' to be between 0 and 2^63 - 1 (got {self.seed})")

    @classmethod
    def from_settings(cls, settings: Settings) -> RunConfig:
        r"""Makes a configuration of checked values under dotted names; what is missing takes its
        default, and a :class:`ConfigError` is raised where there is no data set.
        """
        model: dict[str, Any] = _section(settings, "model")
        name, width = model.pop("name", "grama"), model.pop("hidden_channels", 64)
        return cls(
            data=DataConfig.from_settings(settings),
            model=ModelConfig(str(name), int(width), model),
            task=_make(TaskConfig, settings, "task"),
            optimizer=_make(OptimizerSettings, settings, "optimizer"),
            schedule=_make(ScheduleSettings, settings, "schedule"),
            trainer=_make(TrainerSettings, settings, "trainer"),
            seed=int(str(settings.get("seed", 0))),
            test=settings.get("test", True) is not False,
        )

    def to_settings(self) -> dict[str, object]:
        settings: dict[str, object] = {}
        for section, content in self.to_dict().items():
            if isinstance(content, dict):
                settings |= {f"{section}.{name}": value for name, value in content.items()}
            else:
                settings[section] = content
        return settings

    def to_dict(self) -> dict[str, object]:
        r"""Returns the values as nested plain data, in the layout of a configuration file."""
        whole = asdict(self, dict_factory=_as_lists)
        whole["model"] |= whole["model"].pop("options")
        del whole["trainer"]["seed"]
        return whole


def _section(settings: Settings, section: str) -> dict[str, object]:
    parts = ((*name.partition("."), value) for name, value in settings.items())
    return {option: value for first, _, option, value in parts if option and first == section}


def _make(part: type[Part], settings: Settings, section: str) -> Part:
    try:
        return part(**_section(settings, section))
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{error} (in the section '{section}')") from error


def _as_lists(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items}
