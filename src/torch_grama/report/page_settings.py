"""The settings and the environment of all runs of a page, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch_grama.runs.run_files import RunFiles


@dataclass(frozen=True)
class SettingRow:
    r"""A setting.

    Attributes:
        name: Its dotted name.
        values: Its value in each run; empty where a run has none.
        differs: Whether the runs differ in it.
    """

    name: str
    values: Sequence[str]
    differs: bool


@dataclass(frozen=True)
class SettingTable:
    r"""All settings of all runs.

    Attributes:
        runs: The names of the runs.
        settings: What was chosen.
        environment: Where it ran.
        num_different: Number of settings in which runs differ.
    """

    runs: Sequence[str]
    settings: Sequence[SettingRow]
    environment: Sequence[SettingRow]
    num_different: int


def setting_table(runs: Sequence[RunFiles]) -> SettingTable:
    r"""Lays the settings of runs side by side, those that differ first.

    Args:
        runs (sequence of RunFiles): The runs.
    """
    settings = _rows(runs, lambda run: run.settings)
    return SettingTable(
        [run.name for run in runs],
        settings,
        _rows(runs, lambda run: run.environment),
        sum(row.differs for row in settings),
    )


def _rows(
    runs: Sequence[RunFiles], part: Callable[[RunFiles], Mapping[str, str]]
) -> list[SettingRow]:
    names = list(dict.fromkeys(name for run in runs for name in part(run)))
    rows = []
    for name in names:
        values = [part(run).get(name, "") for run in runs]
        rows.append(SettingRow(name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row.differs)
