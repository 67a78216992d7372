"""Every data set that can be loaded by a word, and the one call that loads any.

Nothing that reads or makes data is imported before it is needed, so that a list of all sets, or a
wrong name, does not wait for torch.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_grama.datasets.entry import METRICS, DataFile, Entry, Option, Published, Source
from torch_grama.datasets.errors import DatasetError, DatasetMissingError
from torch_grama.datasets.options import OPTION_KINDS, OptionKind, nearest, read_option
from torch_grama.datasets.storage import Report, Storage

if TYPE_CHECKING:
    from torch_grama.datasets.task_data import GraphTaskData, TableForm
    from torch_grama.datasets.transforms import Transform

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

_KINDS: dict[type, OptionKind] = {bool: "flag", int: "whole", float: "number"}
_TYPES = {"int": int, "float": float}


def load(
    name: str | Path,
    root: str | Path | None = None,
    *,
    transforms: Sequence[Transform] = (),
    report: Report | None = None,
    form: TableForm | None = None,
    **options: object,
) -> GraphTaskData:
    r"""Loads a data set by its name, or a user's own graphs by their path.

    Files are looked for in ``root``, in the folder named by ``GRAMA_DATA`` and in the cache
    before anything is fetched; see :class:`~torch_grama.datasets.storage.Storage`. A word of the
    catalogue wins over a file of that name in the current folder: write ``./cora`` for the file.

    Args:
        name (str or Path): A name of the catalogue (``grama data list`` prints all), or the path
            of a file or folder.
        root (str or Path, optional): Folder for raw files and prepared forms. (default: that of
            ``GRAMA_CACHE``, or ``~/.cache/torch_grama``)
        transforms (sequence, optional): Encodings to add, computed once. (default: none)
        report (callable, optional): Told about the progress. (default: :obj:`None`)
        form (TableForm, optional): Read a user's files as those that a model was trained on.
            (default: :obj:`None`)
        **options: Options of the set (:obj:`variant`, :obj:`labels`, :obj:`seed`, ...) or of
            :func:`~torch_grama.datasets.own_data.load_path`.

    Raises:
        DatasetError: If there is no such set or option, or the files cannot be used.
        DatasetMissingError: If a file is missing and cannot be fetched.

    Example:
        >>> data = load("transfer-ring-5", variant="carry")
        >>> len(data.graphs), data.level, data.metric.name
        (1200, 'node', 'mse')
    """
    from torch_grama.datasets.transforms import apply_transforms

    storage = Storage(root, report)
    return apply_transforms(load_with(name, storage, options, form), transforms, storage)


def load_with(
    name: str | Path, storage: Storage, options: Mapping[str, object], form: TableForm | None = None
) -> GraphTaskData:
    r"""Loads a data set, its options given as a mapping."""
    if not is_path(name):
        entry, checked = resolve(str(name), options)
        return entry.load(storage, **checked)
    refuse_missing(name)  # told before torch is loaded
    from torch_grama.datasets.own_data import load_path

    for key in options:
        if key not in OPTION_KINDS:
            raise DatasetError(
                f"There is no option '{key}' for one's own files{nearest(key, OPTION_KINDS)}; "
                f"the options: {', '.join(OPTION_KINDS)}."
            )
    return load_path(name, form=form, **options)


def is_path(name: str | Path) -> bool:
    r"""Whether a name means files: a path object, something like one, or no known word."""
    if isinstance(name, Path) or "/" in name or "\\" in name:
        return True
    try:
        find(name)
    except DatasetError:
        return Path(name).exists()
    return False


def refuse_missing(name: str | Path) -> None:
    r"""Raises where a name means neither a data set nor files that are there; names the nearest."""
    if Path(name).exists():
        return
    if is_path(name):
        near = "".join(f" (did you mean '{other}'?)" for other in _near_paths(Path(name)))
        raise DatasetMissingError(f"There is no '{name}'{near}: give the path of {FORMS}.")
    find(str(name))


def find(name: str) -> Entry:
    r"""Returns the entry of a name. Case and underscores do not matter.

    Beside the listed names there are ``transfer-<topology>-<distance>[-<variant>]`` for any
    distance, ``property-<task>[-<labels>]``, ``barbell-<size>``,
    ``range-<reach>-<topology>-<hops>[-<variant>]``, ``echo-<task>-published`` and
    ``ising-<side>-<kind>``.
    """
    word = name.strip().lower().replace("_", "-")
    word = ALIASES.get(word, word)
    try:
        entry = CATALOGUE.get(word) or _generated_entry(word)
    except ValueError as error:
        raise DatasetError(f"There is no data set '{name}'. {error}") from error
    if entry is not None:
        return entry
    near = difflib.get_close_matches(word, [*CATALOGUE, *ALIASES])
    near = [*_near_paths(Path(name)), *near]
    hint = f"Did you mean {_quote_all(near)}? " if near else ""
    raise DatasetError(
        f"There is no data set '{name}', and no file or folder of that name. {hint}"
        "`grama data list` prints all."
    )


def resolve(name: str, options: Mapping[str, object]) -> tuple[Entry, dict[str, Option]]:
    r"""Returns the entry of a name together with the checked options of its loader.

    A variant or label set chosen by an option becomes part of the name, so that
    ``transfer-line-5`` with ``variant="carry"`` is ``transfer-line-5-carry``.
    """
    entry = find(name)
    checked = {key: _check_option(entry, key, value) for key, value in options.items()}
    for key in ("variant", "labels"):
        default = entry.options.get(key, ("",))[0]
        chosen = checked.pop(key, default)
        if chosen != default:
            entry = find(f"{entry.name.removesuffix(f'-{default}')}-{chosen}")
    return entry, checked


def _check_option(entry: Entry, key: str, value: object) -> Option:
    if key not in entry.options:
        hint = nearest(key, entry.options)
        known = _quote_all(list(entry.options)) if entry.options else "none"
        raise DatasetError(
            f"'{entry.name}' has no option '{key}'{hint}; the options it has: {known}."
        )
    allowed = entry.options[key]
    what = f"the option '{key}' of '{entry.name}'"
    kind = _KINDS.get(allowed[-1] if isinstance(allowed[-1], type) else type(allowed[-1]), "word")
    if kind == "word" and isinstance(value, bool):
        value = str(value).lower()  # YAML reads the word true as a truth value
    try:
        read = read_option(value, kind, what)
    except ValueError as error:
        raise DatasetError(f"{error}.") from error
    if isinstance(allowed[-1], type) or read in allowed:
        return read  # type: ignore[return-value]  # it is of the kind that was asked for
    raise DatasetError(
        f"Expected {what} to be {_quote_all([str(item) for item in allowed])} (got {value!r})."
    )


def _near_paths(path: Path) -> list[str]:
    """The file or folder beside a missing one that was probably meant, if there is one."""
    try:
        beside = [entry.name for entry in path.parent.iterdir() if entry.name[0] != "."]
    except OSError:
        return []
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    return [str(path.with_name(name)) for name in near]


def _quote_all(words: list[str]) -> str:
    """Words in quotes: ``'a', 'b' or 'c'``."""
    *most, last = (f"'{word}'" for word in words)
    return f"{', '.join(most)} or {last}" if most else last


def _read_facts(name: str) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = json.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return facts


def _entry(*layers: Mapping[str, Any]) -> Entry:
    """The entry of facts, of which later ones win."""
    facts: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for layer in layers:
        facts |= layer
        numbers |= layer.get("published", {})
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
    facts |= {"sources": sources, "options": options, "metric": METRICS[facts["metric"]]}
    return Entry(**_tuples(facts | {"published": Published(**_tuples(numbers))}))


def _tuples(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in facts.items()}


def _generated_entry(name: str) -> Entry | None:
    """The entry of a generated set; what its name states are the arguments of the entry."""
    word, _, rest = name.partition("-")
    group = _GENERATED.get(word)
    if group is None:
        return None
    found = re.fullmatch(group["pattern"], rest)
    if found is None:
        raise ValueError(f"Expected {group['expected']} (got '{name}')")
    options = dict(group["shared"]["options"])
    stated: dict[str, Any] = found.groupdict()
    for key, value in stated.items():
        if key in options:  # what the name chooses comes first, as the default does
            stated[key] = value or options[key][0]
            options[key] = sorted(options[key], key=lambda other: other != stated[key])
        elif value.isdecimal():
            stated[key] = int(value)
    chosen = [group.get(key, {}).get(str(value), {}) for key, value in stated.items()]
    named = {"name": name, "arguments": list(stated.values()), "options": options}
    named["published"] = _COUNTED[word](**stated) if word in _COUNTED else {}
    entry = _entry(group["shared"], *chosen, named)
    words = {key: str(value).replace("-", " ") for key, value in stated.items()}
    return replace(entry, summary=entry.summary.format(**words))


def _count_transfer(topology: str, distance: int, variant: str) -> dict[str, object]:
    is_legacy = variant == "legacy"
    nodes = distance + (not is_legacy) if topology == "line" else 2 * distance
    edges = {"line": nodes - 1, "ring": 2 * distance, "crossed-ring": 4 * distance - 4}[topology]
    if is_legacy:  # every entry counts: self-loops of a line, two edges of a crossed ring twice
        edges = 2 * edges + {"line": nodes, "ring": 0, "crossed-ring": 4}[topology]
    numbers: dict[str, object] = {"num_nodes": 1200 * nodes, "num_edges": 1200 * edges}
    counted = "directed" if is_legacy else "undirected"
    return {**numbers, "num_features": 3 if variant == "carry" else 1, "edges": counted}


_COUNTED: dict[str, Callable[..., dict[str, object]]] = {
    "transfer": _count_transfer,
    "barbell": lambda size: {"num_nodes": 300 * size, "num_edges": 150 * (size * (size - 1) + 1)},
}
"""Sizes of the sets of a family that their names state by a formula."""

_GENERATED = {group["word"]: group for group in _read_facts("generated.json")}
_LISTED = [f"{word}-{rest}" for word, group in _GENERATED.items() for rest in group["listed"]]
_FROM_FILES = [(g["shared"], own) for g in _read_facts("published.json") for own in g["sets"]]
CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (*map(_generated_entry, _LISTED), *(_entry(*facts) for facts in _FROM_FILES))
    if entry is not None
}
"""Name to entry; generated sets exist for every distance and size, listed or not."""
