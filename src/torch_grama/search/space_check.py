"""Checks every value of a space before the first trial starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.catalogue import is_path
from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.run import build_task
from torch_grama.experiments.settings import check_settings, mapping_of, resolve_config
from torch_grama.search.space import Domain, Point, Space
from torch_grama.training.checkpoint_file import hash_data


@dataclass(frozen=True)
class CheckedSpace:
    r"""A space whose every value can be."""

    space: Space  # the space; values are of the types of their settings
    metric: str  # name of the metric
    higher_is_better: bool  # the direction in which it improves
    span: int  # most epochs of a run
    values: str  # a hash of the data; empty if the trials differ in it


def check_space(space: Space, report: Report | None = None) -> CheckedSpace:
    r"""Checks every value of a space: its setting exists, it can be read, and a model can be built
    with it.

    Combinations are not tried: one that cannot be is a failed trial.
    """
    first = {name: domain.values[0] for name, domain in space.domains.items()}
    space = _check_values(space, first)
    if space.searcher_name == "grid":
        next(space.grid())  # says where a range stands in a grid
        replace(space.searcher, name="grid")  # and that a grid takes no number of trials
    first, last = (
        {name: domain.values[place] for name, domain in space.domains.items()} for place in (0, -1)
    )
    config = RunConfig.from_settings(_settings(space, first))
    if is_path(config.data.name):
        # workers may have another working folder
        place = str(Path(config.data.name).resolve())
        space = replace(space, base={**space.base, "data.name": place})
    data = load_data(config.data, report)
    _check_against(space, data)
    _check_targets(space, first, data)
    facts = DataFacts.of(data)
    span = 0
    data_varies = any(name.startswith("data.") for name in space.domains)
    changes = [{name: v} for name, domain in space.domains.items() for v in domain.samples]
    for change in changes or [{}]:
        config = resolve_config(_settings(space, first | change), facts)
        span = max(span, config.trainer.max_epochs)
        if data_varies:
            continue
        try:
            build_task(config, facts, data)
        except ConfigError as error:
            # it may be the combination: with other values beside it, it may be right
            other = resolve_config(_settings(space, last | change), facts)
            try:
                build_task(other, facts, data)
            except ConfigError:
                raise error from None
    values = "" if data_varies else hash_data(data, config.data.fold)
    return CheckedSpace(space, data.metric.name, data.metric.higher_is_better, span, values)


def _check_targets(space: Space, first: Point, data: GraphTaskData) -> None:
    """Options of the data may change its features and edges, but not what is scored."""
    options = {name: d for name, d in space.domains.items() if name.startswith("data.options.")}
    for name, value in ((n, value) for n, domain in options.items() for value in domain.samples):
        other = load_data(RunConfig.from_settings(_settings(space, first | {name: value})).data)
        if not _are_comparable(data, other):
            raise ConfigError(
                f"Expected the same targets and split with all values of '{name}' (not so with "
                f"{value!r}): values on different data cannot be compared; set it under 'base'"
            )


def _are_comparable(data: GraphTaskData, other: GraphTaskData) -> bool:
    if (data.metric, len(data.folds)) != (other.metric, len(other.folds)):
        return False
    one, two = (torch.cat([graph["y"] for graph in each.graphs]) for each in (data, other))
    return torch.equal(one.double().nan_to_num(), two.double().nan_to_num()) and all(
        torch.equal(here.val, there.val)
        for here, there in zip(data.folds, other.folds, strict=True)
    )


def _settings(space: Space, point: Point) -> Mapping[str, object]:
    return check_settings(("in the space", {**space.base, **point}))


def _check_values(space: Space, first: Point) -> Space:
    """The space with values of the types of their settings."""
    for name in space.domains:
        if name in ("data.name", "data.root", "test"):
            raise ConfigError(
                f"Expected one data set and no test part in a sweep (got '{name}' in the space): "
                f"values on different data cannot be compared; set it under 'base'"
            )
    for name, word in (("data.fold", "folds"), ("seed", "seeds")):
        if getattr(space.repeat, word) and (name in space.base or name in space.domains):
            raise ConfigError(
                f"Expected '{name}' either as a setting or by 'repeat.{word}', not both"
            )
    if "test" in space.base:
        raise ConfigError(
            "Expected no 'test' in the base of a sweep, which leaves the test part unread: train "
            "the best settings afterwards, or measure a run with `grama evaluate`"
        )
    checked = check_settings(("in the base of the space", space.base))
    # entries of a mapping stay under their own names, so that a space can change one
    free = {name: value for name, value in space.base.items() if mapping_of(name) is not None}
    mappings = {mapping_of(name) for name in free}
    base = {name: value for name, value in checked.items() if name not in mappings} | free
    domains = dict(space.domains)
    for name, domain in space.domains.items():
        read = [_settings(space, {**first, name: v}).get(name) for v in domain.samples]
        if domain.is_list and mapping_of(name) is None:
            domains[name] = Domain.parse(name, {domain.kind: [*map(_as_written, read)]})
    base = {name: _as_written(value) for name, value in base.items()}
    return replace(space, base=base, domains=domains)


def _as_written(value: object) -> object:
    """A file has lists where a setting has tuples."""
    return list(value) if isinstance(value, tuple) else value


def _check_against(space: Space, data: GraphTaskData) -> None:
    if space.metric not in ("val", f"val/{data.metric.name}"):
        raise ConfigError(
            f"Expected 'metric' to be 'val' or 'val/{data.metric.name}', the metric of "
            f"'{data.name}' (got '{space.metric}')"
        )
    wrong = [fold for fold in space.repeat.folds if fold >= len(data.folds)]
    if wrong:
        raise ConfigError(
            f"Expected 'repeat.folds' to be below {len(data.folds)}, the number of folds of "
            f"'{data.name}' (got {wrong[0]})"
        )
