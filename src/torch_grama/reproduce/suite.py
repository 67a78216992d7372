"""An experiment of the paper: which models run on which data, how often and for how long."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch_grama
from torch_grama.runs.safe_files import YamlFileError, read_yaml
from torch_grama.runs.words import name_budget, name_nearest

CHECKOUT = Path(torch_grama.__file__).parents[2]
"""The folder of the project, where the package runs from a checkout of it."""
CONFIGS = Path(torch_grama.__file__).parent / "configs"
RESULTS = Path(torch_grama.__file__).parent / "results"
"""The numbers that come with the package."""
SUITE_FILE = "suite.yaml"
REPEATS = {"fold": "one run per fold", "seed": "one run per seed, all on the first fold"}
BUDGETS = ("smoke", "short", "full")
SPACE = "search"
"""The space of a suite that names none."""
KEYS = (
    *("title", "about", "tables", "data", "models", "repeat", "budgets", "defaults", "rows"),
    *("space", "notes"),
)


class SuiteError(ValueError):
    r"""A suite that cannot be used; the message names the folder, or the file and the key."""


def find_config(name: str | Path) -> Path:
    r"""Finds a file of settings or a space: as it is named, or, such as ``hetero/minesweeper-gcn``,
    among those of the package.
    """
    path = Path(name)
    own = CONFIGS / f"{str(name).removeprefix('configs/').removesuffix('.yaml')}.yaml"
    return path if path.exists() or not own.is_file() else own


def find_configs(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the configurations: that of the package, unless the caller names one."""
    return _check_folder(Path(given or CONFIGS), "configs")


def find_results(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the numbers that are kept, likewise."""
    return _check_folder(Path(given or RESULTS), "results")


def _check_folder(place: Path, name: str) -> Path:
    if place.is_dir():
        return place
    raise SuiteError(f"Expected a folder '{place}'; name another with `--{name}`")


@dataclass(frozen=True)
class Budget:
    r"""How much an experiment may cost."""

    runs: int  # runs per cell
    # settings under dotted names that replace those of the configuration
    changes: Mapping[str, object] = field(default_factory=dict)
    data: tuple[str, ...] = ()  # the data sets to run; empty: all of the suite
    models: tuple[str, ...] = ()  # the models to run; empty: all of the suite


@dataclass(frozen=True)
class SuiteData:
    r"""A column of a suite."""

    label: str  # what results and configurations are filed under
    name: str  # the name or path of the data set
    metric: str  # its metric
    options: Mapping[str, object] = field(default_factory=dict)  # options of the data set
    # settings under dotted names for rows without a configuration of their own
    changes: Mapping[str, object] = field(default_factory=dict)
    suite: str = ""  # the suite that holds its numbers, for a summary of others
    pairs: tuple[tuple[str, str], ...] = ()  # matched pairs of rows: a backbone, GRAMA around it
    parameters: int = 0  # the size of both sides of its pairs
    sizes: Mapping[str, int] = field(default_factory=dict)  # of rows whose pair has another size
    # further settings of the one and the other side of its pairs
    sides: tuple[Mapping[str, object], Mapping[str, object]] = ({}, {})
    tuning: Tuning | None = None  # how both sides are tuned


@dataclass(frozen=True)
class Tuning:
    r"""A small random search, the same for both sides of a pair."""

    draws: int  # settings to try
    repeats: int  # folds or seeds that each is tried on
    space: Mapping[str, tuple[object, ...]]  # what each setting is drawn from, by dotted name
    # and what those that only a backbone, or only GRAMA, has are drawn from
    sides: tuple[Mapping[str, tuple[object, ...]], Mapping[str, tuple[object, ...]]]
    # and what single rows draw in place of it, or besides, by their names
    rows: Mapping[str, Mapping[str, tuple[object, ...]]] = field(default_factory=dict)
    # settings of the search alone, such as fewer epochs
    changes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    r"""One experiment of the paper."""

    name: str  # the word for it
    title: str  # its heading
    about: str  # one sentence on what it shows
    tables: tuple[str, ...]  # files of the paper's numbers to compare with
    data: tuple[SuiteData, ...]  # the columns
    models: tuple[str, ...]  # the rows that are run when none are named
    repeat: str  # "fold" or "seed"
    budgets: Mapping[str, Budget]  # what smoke, short and full mean here
    # settings under dotted names for rows without a configuration of their own
    defaults: Mapping[str, object]
    # further ones for single rows, by their names, or for one cell by "label/row"
    rows: Mapping[str, Mapping[str, object]]
    space: str  # the file in configs/spaces that its rows are tuned with, without its suffix
    notes: tuple[str, ...]  # sentences to print below the table
    folder: Path  # where the configurations of its rows lie

    def columns(self, data: Sequence[str] = (), budget: str | None = None) -> list[SuiteData]:
        r"""Returns the columns that are asked for: those with these labels, else those of a budget,
        else all.
        """
        limits = self.budgets.get(budget) if budget else None
        labels = data or (limits.data if limits else ())
        return [self.find_data(label) for label in labels] or list(self.data)

    def rows_of(self, entry: SuiteData, budget: str, models: Sequence[str] = ()) -> tuple[str, ...]:
        r"""Returns the rows to run in a column: those named, else those of the budget, else those
        of the column's pairs, else all of the suite. A column of pairs has no other rows.
        """
        paired = tuple(dict.fromkeys(row for pair in entry.pairs for row in pair))
        rows = tuple(models) or self.budgets[budget].models or paired or self.models
        return tuple(row for row in rows if row in paired) if paired else rows

    def check_budget(self, budget: str) -> None:
        r"""Refuses a budget that the suite does not have; one without budgets takes any word."""
        if self.budgets and budget not in self.budgets:
            raise SuiteError(
                f"Expected '--budget' of '{self.name}' to be one of {', '.join(self.budgets)} "
                f"(got {budget!r})"
            )

    @property
    def is_summary(self) -> bool:
        r"""Whether it only gathers the numbers of others."""
        return any(entry.suite for entry in self.data)

    @property
    def has_pairs(self) -> bool:
        r"""Whether it compares backbones with GRAMA around them."""
        return any(entry.pairs for entry in self.data)

    def pairs(self, data: Sequence[str] = ()) -> dict[str, tuple[str, tuple[tuple[str, str], ...]]]:
        r"""Returns the metric and the pairs of rows of each column that has some."""
        columns = self.columns(data)
        return {entry.label: (entry.metric, entry.pairs) for entry in columns if entry.pairs}

    def count_runs(self, entry: SuiteData) -> dict[str, int]:
        r"""Returns how many runs each budget asks for in a column."""
        owner = find_suite(entry.suite, self.folder.parent) if entry.suite else self
        return {name: budget.runs for name, budget in owner.budgets.items()}

    def find_data(self, label: str) -> SuiteData:
        columns = {entry.label: entry for entry in self.data}
        if label not in columns:
            raise SuiteError(
                f"Expected data of '{self.name}', one of {name_nearest(label, columns)} (got "
                f"{label!r})"
            )
        return columns[label]


def read_suite(folder: Path) -> Suite:
    path = folder / SUITE_FILE
    try:
        values = _mapping(read_yaml(path, aliases=True), "the file", KEYS)
        repeat = str(values.get("repeat", "seed"))
        if repeat not in REPEATS:
            raise ValueError(f"expected 'repeat' to be one of {name_nearest(repeat, REPEATS)}")
        given = values.get("budgets", {})
        if isinstance(given, Mapping):
            given = {name_budget(str(word)): budget for word, budget in given.items()}
        budgets = _mapping(given, "budgets", BUDGETS)
        rows = _mapping(values.get("rows", {}), "rows")
        return Suite(
            name=folder.name,
            title=str(values.get("title", folder.name)),
            about=str(values.get("about", "")),
            tables=_words(values, "tables"),
            data=tuple(_read_data(entry) for entry in _sequence(values, "data")),
            models=_words(values, "models"),
            repeat=repeat,
            budgets={
                name: _read_budget(name, budgets[name]) for name in BUDGETS if name in budgets
            },
            defaults=_settings(values, "defaults"),
            rows={row: _settings(rows, row) for row in rows},
            space=str(values.get("space", SPACE)),
            notes=_words(values, "notes"),
            folder=folder,
        )
    except YamlFileError as error:
        raise SuiteError(str(error)) from error
    except ValueError as error:
        raise SuiteError(f"{path}: {error}") from error


def list_suites(configs: Path) -> list[Suite]:
    return [read_suite(path.parent) for path in sorted(configs.glob(f"*/{SUITE_FILE}"))]


def find_suite(name: str, configs: Path) -> Suite:
    folder = configs / name
    if not (folder / SUITE_FILE).is_file():
        names = [path.parent.name for path in configs.glob(f"*/{SUITE_FILE}")]
        raise SuiteError(
            f"Expected an experiment, one of {name_nearest(name, sorted(names))} (got {name!r})"
        )
    return read_suite(folder)


def _read_data(entry: object) -> SuiteData:
    known = ("label", "name", "metric", "options", "set", "suite")
    paired = ("pairs", "parameters", "backbone", "grama", "tune")
    values = _mapping(entry, "data", (*known, *paired))
    for key in ("name", "metric"):
        if not isinstance(values.get(key), str):
            raise ValueError(f"expected every entry of 'data' to have a '{key}'")
    name = str(values["name"])
    pairs = [_read_pair(pair) for pair in _sequence(values, "pairs")]
    return SuiteData(
        str(values.get("label", name)),
        name,
        str(values["metric"]),
        _mapping(values.get("options", {}), "data.options"),
        _settings(values, "set"),
        str(values.get("suite", "")),
        tuple((backbone, grama) for backbone, grama, *_ in pairs),
        _count(values, "parameters", "data") if pairs else 0,
        {row: size for *rows, size in pairs if isinstance(size, int) for row in rows},
        (_settings(values, "backbone"), _settings(values, "grama")),
        _read_tuning(values["tune"]) if "tune" in values else None,
    )


def _read_pair(entry: object) -> tuple[str, str, int | None]:
    if not isinstance(entry, list) or len(entry) not in (2, 3):
        raise ValueError(
            "expected every pair to be two rows, backbone and GRAMA, and its number of parameters "
            f"where that differs from its column's (got {entry!r})"
        )
    size = _count({"parameters": entry[2]}, "parameters", "pairs") if len(entry) == 3 else None
    return str(entry[0]), str(entry[1]), size


def _read_tuning(entry: object) -> Tuning:
    known = ("draws", "repeats", "set", "space", "backbone", "grama", "rows")
    values = _mapping(entry, "tune", known)
    space, backbone, grama = (_choices(values, key) for key in ("space", "backbone", "grama"))
    draws, repeats = (_count(values, key, "tune") for key in ("draws", "repeats"))
    of_rows = _mapping(values.get("rows", {}), "tune.rows")
    rows = {row: _choices(of_rows, row) for row in of_rows}
    return Tuning(draws, repeats, space, (backbone, grama), rows, _settings(values, "set"))


def _choices(values: Mapping[str, object], key: str) -> dict[str, tuple[object, ...]]:
    found = _settings(values, key)
    return {name: tuple(_sequence(found, name)) for name in found}


def _count(values: Mapping[str, object], key: str, of: str) -> int:
    count = values.get(key, 1)
    if type(count) is not int or count < 1:
        raise ValueError(f"expected '{of}.{key}' to be at least 1 (got {count!r})")
    return count


def _read_budget(name: str, entry: object) -> Budget:
    values = _mapping(entry, f"budgets.{name}", ("runs", "set", "data", "models"))
    runs = _count(values, "runs", f"budgets.{name}")
    return Budget(runs, _settings(values, "set"), _words(values, "data"), _words(values, "models"))


def _mapping(value: object, what: str, known: Collection[str] = ()) -> Mapping[str, object]:
    """The value if it is a mapping, with no other keys than those that are known, if any are."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"expected {what} to be a mapping (got {value!r})")
    for key in value if known else ():
        if key not in known:
            name = key if what == "the file" else f"{what}.{key}"
            raise ValueError(
                f"unknown key '{name}'; expected one of {name_nearest(key, sorted(known))}"
            )
    return value


def _sequence(values: Mapping[str, object], key: str) -> list[object]:
    found = values.get(key, [])
    if not isinstance(found, list):
        raise ValueError(f"expected '{key}' to be a list (got {found!r})")
    return found


def _words(values: Mapping[str, object], key: str) -> tuple[str, ...]:
    items = _sequence(values, key)
    for item in items:
        if isinstance(item, Mapping):  # a sentence with a colon that is not in quotes
            raise ValueError(f"expected {key!r} to list texts (got {item!r}); put it in quotes")
    return tuple(map(str, items))


def _settings(values: Mapping[str, object], key: str) -> dict[str, object]:
    """Nested settings under dotted names: {'a': {'b': 1}} -> {'a.b': 1}."""
    flat: dict[str, object] = {}
    for name, value in _mapping(values.get(key, {}), key).items():
        nested = _settings({name: value}, name) if isinstance(value, Mapping) else None
        flat |= {name: value} if nested is None else {f"{name}.{n}": v for n, v in nested.items()}
    return flat
