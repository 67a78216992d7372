"""A whole configuration from what was set, with good settings for the task where nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.catalogue import is_path
from torch_grama.experiments.catalogue import DEFAULT_MODEL, canonical_name, find_model
from torch_grama.experiments.config import DataConfig, RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.settings import check_settings, flatten, known_options, read_file

MOST_ATTENDED_NODES = 1000
"""Nodes of a graph up to which attention, which costs their square, is taken unasked."""
_DEPTH = ("num_layers", "seq_len", "num_blocks", "num_recurrences")


def make_config(
    settings: Mapping[str, object] | str | Path,
    overrides: Mapping[str, object] | None = None,
    *,
    data: GraphTaskData | None = None,
) -> RunConfig:
    r"""Makes a configuration of a file or of settings, nested or dotted, and completes it with good
    settings for the task.

    Args:
        settings (mapping, str or Path): Settings such as ``{"data": "cora", "optimizer.lr":
            0.01}``, or the path of a YAML file.
        overrides (mapping, optional): Settings that win over these. (default: :obj:`None`)
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
        layers = [("in the settings", flatten(settings))]
    else:
        layers = [(f"in '{settings}'", read_file(settings))]
    layers.append(("in the overrides", flatten(overrides or {})))
    checked = check_settings(*layers)
    if data is None:
        data = load_data(DataConfig.from_settings(checked))
    return resolve_config(checked, DataFacts.of(data))


def resolve_config(settings: Mapping[str, object], facts: DataFacts) -> RunConfig:
    r"""Completes checked settings with good ones for the task, every option of the model among
    them.
    """
    model = canonical_name(str(settings.get("model.name", DEFAULT_MODEL)))
    stated = {
        name: option.default
        for name, option in known_options(model).items()
        if name.startswith("model.") and name != "model.name"
    }
    chosen = default_settings(facts, model)
    if settings.get("model.num_layers") is not None:
        # a depth that is asked for is not mixed with the blocks of another one
        chosen = {
            name: value
            for name, value in chosen.items()
            if name.removeprefix("model.") not in _DEPTH
        }
    warmup = settings.get("trainer.max_epochs")
    if isinstance(warmup, int) and "schedule.warmup_epochs" in chosen:
        # a short run must not end in its warm-up
        usual = int(str(chosen["schedule.warmup_epochs"]))
        chosen["schedule.warmup_epochs"] = min(usual, warmup // 10)
    if settings.get("schedule.name") in ("onecycle", "plateau"):
        chosen.pop("schedule.warmup_epochs", None)
    if is_path(str(settings.get("data.name", ""))):
        # published features are taken as published; a user's may be in any unit
        chosen["data.standardize"] = True
    return RunConfig.from_settings({**stated, **chosen, **settings, "model.name": model})


def default_settings(facts: DataFacts, model: str = DEFAULT_MODEL) -> dict[str, object]:
    r"""Returns settings that suit a task and a model."""
    chosen = dict(_of_task(facts))
    family = find_model(model).family
    known = known_options(model)
    if family == find_model(DEFAULT_MODEL).family:
        chosen |= _of_grama(facts)
        if model != DEFAULT_MODEL:
            # the word itself says which backbone
            chosen.pop("model.backbone", None)
    elif "model.num_layers" in known:
        chosen["model.num_layers"] = 4
    return {
        name: value
        for name, value in chosen.items()
        if not name.startswith("model.") or name in known
    }


def _of_task(facts: DataFacts) -> dict[str, object]:
    """Optimiser, schedule and epochs: the same for every model."""
    settings: dict[str, object] = {
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
        settings |= {
            "optimizer.lr": 5e-3,
            "schedule.name": "constant",
            "schedule.warmup_epochs": 0,
            "trainer.max_epochs": 200,
            "trainer.patience": 50,
            "model.hidden_channels": 32,
            "model.dropout": 0.0,
        }
    elif facts.level == "node" and facts.num_graphs == 1:
        settings |= {"optimizer.lr": 3e-3, "optimizer.weight_decay": 1e-4}
    elif facts.kind == "regression":
        settings |= {"trainer.batch_size": 128, "model.dropout": 0.0}
    else:
        settings |= {"trainer.batch_size": 128, "model.dropout": 0.1}
    return settings


def _of_grama(facts: DataFacts) -> dict[str, object]:
    """Few recurrences and more blocks for graph targets; the series itself for forecasts."""
    if facts.kind == "forecast":
        return {"model.num_blocks": 2, "model.backbone": "gcn"}
    if facts.level == "graph":
        chosen: dict[str, object] = {
            "model.seq_len": 2,
            "model.num_blocks": 4,
            "model.norm": "batch_norm",
        }
        if facts.edge_encoding.kind == "none" and not facts.has_edge_weight:
            # gates take means over neighbours, which hide how many there are
            small = facts.mean_nodes <= MOST_ATTENDED_NODES
            chosen["model.backbone"] = "gps" if small else "gcn"
        return chosen
    return {"model.seq_len": 4, "model.num_blocks": 2}
