"""Settings as users write them, checked, and completed with good ones for the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.catalogue import is_path
from torch_grama.datasets.options import parse_text
from torch_grama.experiments.catalogue import DEFAULT_MODEL, canonical_name, find_model
from torch_grama.experiments.config import (
    ConfigError,
    DataConfig,
    Option,
    RunConfig,
    TaskConfig,
    options_of,
    read_value,
)
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import model_options
from torch_grama.runs.safe_files import YamlFileError, read_yaml
from torch_grama.runs.words import clip
from torch_grama.training.optimizer import OptimizerSettings, ScheduleSettings
from torch_grama.training.trainer_settings import TrainerSettings

ENVIRONMENT = "environment"
"""The section of a run's file that says where it ran; it configures nothing."""
_SECTIONS = ("data", "model", "task", "optimizer", "schedule", "trainer")
_SHORT = {"data": "data.name", "model": "model.name"}
# Settings that are mappings; one entry is set as `--data.options.variant carry`.
_MAPPINGS = ("data.options", "model.backbone_options")
# What other libraries call a setting.
_OTHER_WORDS = {
    **dict.fromkeys(("learning_rate", "rate"), "lr"),
    **dict.fromkeys(("epochs", "num_epochs", "n_epochs"), "max_epochs"),
    **dict.fromkeys(("hidden", "hidden_dim", "hidden_size", "width", "dim"), "hidden_channels"),
    **dict.fromkeys(("layers", "n_layers", "depth"), "num_layers"),
    **dict.fromkeys(("wd", "l2"), "weight_decay"),
    **dict.fromkeys(("batch", "bs"), "batch_size"),
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "patience"),
    **dict.fromkeys(("device", "gpu"), "accelerator"),
    **dict.fromkeys(("gpus", "num_devices"), "devices"),
    **dict.fromkeys(("dataset", "path"), "name"),
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    **dict.fromkeys(("conv", "layer"), "backbone"),
}


def known_options(model: str = DEFAULT_MODEL) -> dict[str, Option]:
    r"""Returns every option of a run with the given model, by its dotted name."""
    try:
        of_model = model_options(model)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    width = Option(int, 64, of_model.pop("hidden_channels").help)
    name = Option(str, DEFAULT_MODEL, "Name of the model.")
    sections = {
        "data": options_of(DataConfig),
        "model": {"name": name, "hidden_channels": width, **of_model},
        "task": options_of(TaskConfig),
        "optimizer": options_of(OptimizerSettings),
        "schedule": options_of(ScheduleSettings),
        "trainer": options_of(TrainerSettings, skip=["seed"]),
    }
    known = {
        f"{section}.{name}": option
        for section, options in sections.items()
        for name, option in options.items()
    }
    known["seed"] = Option(int, 0, "Where all randomness starts.")
    known["test"] = Option(bool, True, "Whether the test part is read, once, at the end.")
    return known


def option_parser(model: str = DEFAULT_MODEL) -> ArgumentParser:
    r"""Builds the parser of all options of a run with the given model."""
    parser = ArgumentParser(prog="grama train", exit_on_error=False, add_help=False)
    groups = {}
    for name, option in known_options(model).items():
        section = name.partition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        default = option.default
        groups[section].add_argument(
            f"--{name}",
            type=option.annotation,
            default=None if default is Parameter.empty else default,
            help=(option.help or " ").replace("%", "%%"),
        )
    return parser


def read_arguments(words: Sequence[str]) -> dict[str, str]:
    r"""Reads options off a command line, ``--optimizer.lr 0.01`` or ``--optimizer.lr=0.01``, as
    dotted names and values as written.

    ``--data`` and ``--model`` are short for their names. An option without value is a switch.
    """
    settings: dict[str, str] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_") if mapping_of(name) is None else name
            name = _SHORT.get(name, name)
            settings[name] = value if equals else "true"
            name = None if equals else name
        elif name is not None:
            settings[name], name = word, None
        else:
            raise ConfigError(
                f"Expected an option such as `--data {word}` (got '{word}', which belongs to none)"
            )
    return settings


def read_file(path: str | Path) -> dict[str, object]:
    r"""Reads settings from a YAML file as dotted names and values."""
    return flatten(read_sections(path))


def read_sections(path: str | Path) -> dict[str, object]:
    r"""Reads a YAML file of settings as it stands."""
    try:
        content = read_yaml(Path(path))
    except YamlFileError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(content, dict | None):
        raise ConfigError(
            f"'{path}' holds no settings: write sections such as 'data:' and 'model:'"
        )
    return content or {}


def flatten(content: Mapping[str, object]) -> dict[str, object]:
    r"""Turns nested settings, dotted ones, or a mixture into dotted ones."""
    settings: dict[str, object] = {}
    for key, value in content.items():
        name = str(key)
        if name == ENVIRONMENT:
            continue
        is_section = bool(value) or name in _SECTIONS  # `{}` in the place of a value is none
        if isinstance(value, Mapping) and name not in _MAPPINGS and is_section:
            settings |= flatten({f"{name}.{inner}": item for inner, item in value.items()})
        else:
            settings[_SHORT.get(name, name)] = value
    return settings


def check_settings(*layers: tuple[str, Mapping[str, object]]) -> dict[str, object]:
    r"""Joins layers of settings, later ones over earlier ones, and checks every value: text, as on
    a command line, is read as its option's type.

    A layer is what to call it in an error, and its settings. Raises a :class:`ConfigError` where a
    name is unknown (the nearest is named), or a value cannot be.
    """
    words = [settings["model.name"] for _, settings in layers if "model.name" in settings]
    model = canonical_name(str(words[-1])) if words else DEFAULT_MODEL
    known = known_options(model)
    explain_old = find_model(model).explain_old
    checked: dict[str, object] = {}
    for source, settings in layers:
        for name, value in settings.items():
            section, _, option = name.partition(".")
            advice = explain_old(option, value) if section == "model" else None
            if advice is not None:
                raise ConfigError(f"{advice} ({source})")
            mapping = mapping_of(name)
            if mapping is not None and mapping in known:
                before = checked.get(mapping, known[mapping].default)
                entries = dict(before) if isinstance(before, Mapping) else {}
                read = parse_text if mapping == "data.options" else _guess
                entry = read(value) if isinstance(value, str) else value
                checked[mapping] = entries | {name.removeprefix(f"{mapping}."): entry}
            elif name not in known:
                raise _unknown(name, value, known, source, model)
            else:
                try:
                    checked[name] = read_value(known[name].annotation, value)
                    if type(checked[name]) is int and abs(int(str(checked[name]))) >= 2**63:
                        raise ValueError("a whole number below 2^63")
                except ValueError as error:
                    raise ConfigError(
                        f"Expected '{name}' to be {error} (got {clip(repr(value))}, {source})"
                    ) from error
    if words:
        checked["model.name"] = model
    return checked


def mapping_of(name: str) -> str | None:
    r"""Returns the setting that an entry of a mapping belongs to, such as ``data.options`` for
    ``data.options.variant``, or :obj:`None` for any other name.
    """
    return next((mapping for mapping in _MAPPINGS if name.startswith(f"{mapping}.")), None)


def _unknown(
    name: str, value: object, known: Mapping[str, object], source: str, model: str
) -> ConfigError:
    last = name.rpartition(".")[2]
    if last in ("class_path", "init_args", "_target_", "py/object"):
        return ConfigError(
            f"Expected plain values (got '{name}', {source}): a configuration names no classes and "
            f"runs no code; choose a model by its name with 'model.name'"
        )
    if name in _SECTIONS:
        return ConfigError(
            f"Expected settings in the section '{name}' (got {value!r}, {source}): write "
            f"`{name}:` with lines such as `{next(key for key in known if key.startswith(name))}` "
            f"below it"
        )
    # the same last part in another section, another word for it, then the nearest spelling
    words = (last, _OTHER_WORDS.get(last))
    near = [key for word in words for key in known if key.rpartition(".")[2] == word]
    near = near or get_close_matches(name, ["data", "model", *known], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ":"
    of_model = f" of the model '{model}'" if name.startswith("model.") else ""
    return ConfigError(
        f"There is no setting '{name}'{of_model} ({source}){hint} `grama train --help-all` prints "
        f"all of them, `grama train --help` the other options"
    )


def _guess(value: str) -> object:
    try:
        read = yaml.safe_load(value) if value else value
    except yaml.YAMLError:
        return value
    return read if isinstance(read, str | int | float | bool | list | None) else value


MOST_ATTENDED_NODES = 1000
"""Nodes of a graph up to which attention, which costs their square, is taken unasked."""


def make_config(
    settings: Mapping[str, object] | str | Path,
    *,
    data: GraphTaskData | None = None,
) -> RunConfig:
    r"""Makes a configuration of a file or of settings, nested or dotted, and completes it with good
    settings for the task.

    Args:
        settings (mapping, str or Path): Settings such as ``{"data": "cora", "optimizer.lr":
            0.01}``, or the path of a YAML file.
        data (GraphTaskData, optional): The data set, if it is loaded already; otherwise it is
            loaded, for the defaults depend on it. (default: :obj:`None`)

    Raises:
        ConfigError: A name is unknown (the nearest is named), or a value cannot be.
        DatasetError: The data is not there or cannot be used.

    Example:
        >>> config = make_config({"data": "transfer-ring-5", "model.num_layers": 6})
        >>> config.model.name, config.optimizer.lr
        ('grama', 0.001)
    """
    if isinstance(settings, Mapping):
        layer = ("in the settings", flatten(settings))
    else:
        layer = (f"in '{settings}'", read_file(settings))
    checked = check_settings(layer)
    if data is None:
        data = load_data(DataConfig.from_settings(checked))
    return resolve_config(checked, DataFacts.of(data))


def resolve_config(settings: Mapping[str, object], facts: DataFacts) -> RunConfig:
    r"""Completes checked settings with good ones for the task, and states every model option."""
    model = canonical_name(str(settings.get("model.name", DEFAULT_MODEL)))
    known = known_options(model)
    chosen = _defaults_of(facts)
    if find_model(model).family == find_model(DEFAULT_MODEL).family:
        chosen |= _defaults_of_grama(facts)
        if model != DEFAULT_MODEL:
            chosen.pop("model.backbone", None)  # the word itself says which
    else:
        chosen["model.num_layers"] = 4
    if settings.get("model.num_layers") is not None:
        # a depth that is asked for is not mixed with the blocks of another one
        for name in ("num_layers", "seq_len", "num_blocks", "num_recurrences"):
            chosen.pop(f"model.{name}", None)
    epochs = settings.get("trainer.max_epochs")
    if isinstance(epochs, int):
        # a short run must not end in its warm-up, whose first epoch hardly learns
        most = epochs // 10 if epochs >= 20 else 0
        chosen["schedule.warmup_epochs"] = min(chosen["schedule.warmup_epochs"], most)
    if settings.get("schedule.name") in ("onecycle", "plateau"):
        chosen.pop("schedule.warmup_epochs")
    if is_path(str(settings.get("data.name", ""))):
        # published features are taken as published; a user's may be in any unit
        chosen["data.standardize"] = True
    stated = {name: option.default for name, option in known.items() if name.startswith("model.")}
    suited = {name: value for name, value in chosen.items() if name in known}
    return RunConfig.from_settings({**stated, **suited, **settings, "model.name": model})


def _defaults_of(facts: DataFacts) -> dict[str, Any]:
    """Optimiser, schedule and epochs that suit a task: the same for every model."""
    chosen = {
        "optimizer.name": "adamw",
        "optimizer.lr": 1e-3,
        "schedule.name": "cosine",
        "schedule.warmup_epochs": 10,
        "trainer.max_epochs": 300,
        "trainer.patience": 100,
        "trainer.gradient_clip": 1.0,
        "model.hidden_channels": 64,
        "model.dropout": 0.2,
    }
    if facts.kind == "forecast":
        return chosen | {
            "optimizer.lr": 5e-3,
            "schedule.name": "constant",
            "schedule.warmup_epochs": 0,
            "trainer.max_epochs": 200,
            "trainer.patience": 50,
            "model.hidden_channels": 32,
            "model.dropout": 0.0,
        }
    if facts.level == "node" and facts.num_graphs == 1:
        return chosen | {"optimizer.lr": 3e-3, "optimizer.weight_decay": 1e-4}
    dropout = 0.0 if facts.kind == "regression" else 0.1
    return chosen | {"trainer.batch_size": 128, "model.dropout": dropout}


def _defaults_of_grama(facts: DataFacts) -> dict[str, Any]:
    """Few recurrences and more blocks for graph targets; the series itself for forecasts."""
    if facts.kind == "forecast":
        return {"model.num_blocks": 2, "model.backbone": "gcn"}
    if facts.level == "node":
        return {"model.seq_len": 4, "model.num_blocks": 2}
    chosen = {"model.seq_len": 2, "model.num_blocks": 4, "model.norm": "batch_norm"}
    if facts.edge_encoding.kind == "none" and not facts.has_edge_weight:
        # gates take means over neighbours, which hide how many there are
        small = facts.mean_nodes <= MOST_ATTENDED_NODES
        chosen["model.backbone"] = "gps" if small else "gcn"
    return chosen
