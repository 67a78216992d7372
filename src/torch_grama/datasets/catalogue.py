"""Every data set that can be loaded by a word, and the one call that loads any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch_grama.datasets import (
    echo,
    graph_property,
    graph_sets,
    graph_transfer,
    ising,
    molecules,
    range_tasks,
    sbm,
    single_graphs,
    temporal,
)
from torch_grama.datasets.entry import Entry, Option
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.names import (
    canonical_name,
    published_entries,
    quote_all,
    unknown_name,
)
from torch_grama.datasets.options import OPTION_KINDS, OptionKind, nearest, read_option
from torch_grama.datasets.own_data import load_path
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import GraphTaskData, TableForm
from torch_grama.datasets.transforms import Transform, apply_transforms

_LOADERS: dict[str, Callable[..., GraphTaskData]] = {
    "citation": single_graphs.load_citation,
    "city": single_graphs.load_city,
    "graphland": single_graphs.load_land,
    "heterophilous": single_graphs.load_heterophilous,
    "lrgb": molecules.load_peptides,
    "malnet": graph_sets.load_malnet,
    "ogbg-molhiv": molecules.load_molhiv,
    "sbm": sbm.load_sbm,
    "superpixels": graph_sets.load_superpixels,
    "temporal": temporal.load_temporal,
    "zinc": graph_sets.load_zinc,
}
"""Family, or name, of a published set to what loads it."""

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *graph_transfer.ENTRIES,  # transfer-{line,ring,crossed-ring}-{3,5,10,50}
        *graph_property.ENTRIES,  # property-{diameter,sssp,eccentricity}
        *range_tasks.ENTRIES,  # barbell-{10,20,50}, range-{power,shell,ball}-{line,grid,...}-10
        *echo.ENTRIES,  # echo-{sssp,ecc,diam}
        *ising.ENTRIES,  # ising-{16,32}-{easy,hard}
    )
} | {
    name: replace(entry, loader=_LOADERS.get(name) or _LOADERS[entry.family])
    for name, entry in published_entries().items()
}
"""Name to entry; generated sets exist for every distance and size, listed or not."""

_GENERATED = {
    "transfer": graph_transfer.transfer_entry,
    "property": graph_property.property_entry,
    "barbell": range_tasks.barbell_entry,
    "range": range_tasks.range_entry,
    "echo": echo.echo_entry,
    "ising": ising.ising_entry,
}
_KINDS: dict[type, OptionKind] = {bool: "flag", int: "whole", float: "number"}


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
    storage = Storage(root, report)
    return apply_transforms(load_with(name, storage, options, form), transforms, storage)


def load_with(
    name: str | Path,
    storage: Storage,
    options: Mapping[str, object],
    form: TableForm | None = None,
) -> GraphTaskData:
    r"""Loads a data set, its options given as a mapping."""
    if is_path(name):
        for key in options:
            if key not in OPTION_KINDS:
                raise DatasetError(
                    f"There is no option '{key}' for one's own files{nearest(key, OPTION_KINDS)}; "
                    f"the options: {', '.join(OPTION_KINDS)}."
                )
        return load_path(name, form=form, **options)  # type: ignore[arg-type]  # checked inside
    entry, checked = resolve(str(name), options)
    return entry.load(storage, **checked)


def is_path(name: str | Path) -> bool:
    r"""Whether a name means files: a path object, something like one, or no known word."""
    if isinstance(name, Path) or "/" in name or "\\" in name:
        return True
    try:
        find(name)
    except DatasetError:
        return Path(name).exists()
    return False


def find(name: str) -> Entry:
    r"""Returns the entry of a name. Case and underscores do not matter.

    Beside the listed names there are ``transfer-<topology>-<distance>[-<variant>]`` for any
    distance, ``property-<task>[-<labels>]``, ``barbell-<size>``,
    ``range-<reach>-<topology>-<hops>[-<variant>]``, ``echo-<task>-published`` and
    ``ising-<side>-<kind>``.
    """
    word = canonical_name(name)
    if word in CATALOGUE:
        return CATALOGUE[word]
    make = _GENERATED.get(word.partition("-")[0])
    try:
        if make is not None:
            return make(word)
    except ValueError as error:
        raise DatasetError(f"There is no data set '{name}'. {error}") from error
    raise unknown_name(name)


def resolve(name: str, options: Mapping[str, object]) -> tuple[Entry, dict[str, Option]]:
    r"""Returns the entry of a name together with its checked options.

    A variant or label set chosen by an option becomes part of the name, so that
    ``transfer-line-5`` with ``variant="carry"`` is ``transfer-line-5-carry``.
    """
    entry = find(name)
    checked = {key: _check_option(entry, key, value) for key, value in options.items()}
    for key in ("variant", "labels"):
        default = entry.options.get(key, ("",))[0]
        chosen = checked.setdefault(key, str(default)) if key in entry.options else default
        if chosen != default:
            base = entry.name.removesuffix(f"-{default}")
            entry = find(f"{base}-{chosen}")
    return entry, checked


def _check_option(entry: Entry, key: str, value: object) -> Option:
    if key not in entry.options:
        hint = nearest(key, entry.options)
        known = quote_all(list(entry.options)) if entry.options else "none"
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
        f"Expected {what} to be {quote_all([str(item) for item in allowed])} (got {value!r})."
    )
