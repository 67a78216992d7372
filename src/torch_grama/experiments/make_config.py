"""A configuration from whatever a caller has set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch_grama.datasets import GraphTaskData
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.defaults import resolve_config
from torch_grama.experiments.settings import check_settings, flatten, read_file


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
        data = load_data(RunConfig.from_settings(checked).data)
    return resolve_config(checked, DataFacts.of(data))
