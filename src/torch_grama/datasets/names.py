"""Names of data sets and of files, looked at before anything that reads them is loaded."""

from __future__ import annotations

import difflib
import functools
import json
from pathlib import Path
from typing import Any

from torch_grama.datasets.entry import METRICS, DataFile, Entry, Published, Source
from torch_grama.datasets.errors import DatasetError, DatasetMissingError
from torch_grama.datasets.task_data import GraphTaskData

ALIASES = {
    "chickenpox-hungary": "chickenpox",
    "cifar10": "cifar10-superpixels",
    "cluster": "sbm-cluster",
    "mnist": "mnist-superpixels",
    "molhiv": "ogbg-molhiv",
    "pattern": "sbm-pattern",
    "pedalme-london": "pedalme",
    "wikipedia-math": "wikimath",
    "zinc-12k": "zinc",
    "zinc12k": "zinc",
}
"""Other words for the same sets."""

FORMS = (
    "a folder with nodes.csv and edges.csv (or .parquet), a folder or file of graphs in JSON lines "
    "(.jsonl, .ndjson), an .npz file, or a .pt file of torch_geometric Data"
)
"""The forms in which a user's own graphs are read."""

# Sets that exist for every distance, size or choice of labels, listed or not.
_OPEN = ("transfer-", "property-", "barbell-", "range-", "echo-", "ising-")
_TABLE = Path(__file__).with_name("generated.json")
_PUBLISHED = Path(__file__).with_name("published.json")
_TYPES = {"int": int, "float": float}


@functools.cache
def published_entries() -> dict[str, Entry]:
    r"""Returns the sets that others published, from ``published.json``, where the facts of a family
    stand once.
    """
    entries = {}
    for group in json.loads(_PUBLISHED.read_text(encoding="utf-8")):
        shared = group["shared"]
        for own in group["sets"]:
            numbers = shared.get("published", {}) | own.get("published", {})
            entries[own["name"]] = _entry({**shared, **own, "published": numbers})
    return entries


@functools.cache
def listed_entries() -> dict[str, Entry]:
    r"""Returns the entries of the catalogue without loading what makes or reads them.

    Of generated sets a table beside the catalogue tells, without options; ``python
    tests/listed_tables.py`` writes it, and a test compares it with the catalogue.
    """
    rows = map(_entry, json.loads(_TABLE.read_text(encoding="utf-8")))
    return {entry.name: entry for entry in rows} | published_entries()


def canonical_name(name: str) -> str:
    r"""Returns the form in which a word stands in the catalogue; case and underscores do not
    matter.
    """
    word = name.strip().lower().replace("_", "-")
    return ALIASES.get(word, word)


def refuse_missing(name: str | Path) -> None:
    r"""Raises where a name means neither a data set, with the nearest names, nor files that are
    there.
    """
    if Path(name).exists():
        return
    if isinstance(name, Path) or "/" in name or "\\" in name:
        near = "".join(f" (did you mean '{other}'?)" for other in _near_paths(Path(name)))
        raise DatasetMissingError(f"There is no '{name}'{near}: give the path of {FORMS}.")
    word = canonical_name(name)
    if word not in listed_entries() and not word.startswith(_OPEN):
        raise unknown_name(name)


def unknown_name(name: str) -> DatasetError:
    r"""What is raised for a word that no data set has; the nearest ones are listed."""
    word = canonical_name(name)
    near = difflib.get_close_matches(word, [*listed_entries(), *ALIASES], n=3, cutoff=0.5)
    near = [*_near_paths(Path(name)), *near]
    hint = f"Did you mean {quote_all(near)}? " if near else ""
    return DatasetError(
        f"There is no data set '{name}', and no file or folder of that name. {hint}"
        "`grama data list` prints all."
    )


def _near_paths(path: Path) -> list[str]:
    """The file or folder beside a missing one that was probably meant, if there is one."""
    try:
        beside = [entry.name for entry in path.parent.iterdir() if entry.name[0] != "."]
    except OSError:
        return []
    return [str(path.with_name(n)) for n in difflib.get_close_matches(path.name, beside, n=1)]


def quote_all(words: list[str]) -> str:
    r"""Lists words in quotes: ``'a', 'b' or 'c'``."""
    quoted = [f"'{word}'" for word in words]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _load(entry: Entry, *args: object, **options: object) -> GraphTaskData:
    from torch_grama.datasets.catalogue import find

    return find(entry.name).loader(find(entry.name), *args, **options)


def _entry(facts: dict[str, Any]) -> Entry:
    sources = tuple(
        Source(
            source["name"],
            tuple(DataFile(**_tuples(file)) for file in source["files"]),
            tuple(source.get("modules", ())),
        )
        for source in facts.get("sources", ())
    )
    options = {
        key: tuple(_TYPES.get(value, value) for value in values)
        for key, values in facts.get("options", {}).items()
    }
    return Entry(
        **_tuples(facts)
        | {
            "loader": _load,
            "metric": METRICS[facts["metric"]],
            "published": Published(**_tuples(facts["published"])),
            "sources": sources,
            "options": options,
        }
    )


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in facts.items()}
