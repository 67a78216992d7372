"""One call for every data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch_grama.datasets.catalogue import find, resolve
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.options import OPTION_KINDS, nearest
from torch_grama.datasets.own_data import load_path
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import GraphTaskData
from torch_grama.datasets.transforms import Transform, apply_transforms


def load(
    name: str | Path,
    root: str | Path | None = None,
    *,
    transforms: Sequence[Transform] = (),
    report: Report | None = None,
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
    return apply_transforms(load_with(name, storage, options), transforms, storage)


def load_with(name: str | Path, storage: Storage, options: Mapping[str, object]) -> GraphTaskData:
    r"""Loads a data set, its options given as a mapping."""
    if is_path(name):
        for key in options:
            if key not in OPTION_KINDS:
                raise DatasetError(
                    f"There is no option '{key}' for one's own files{nearest(key, OPTION_KINDS)}; "
                    f"the options: {', '.join(OPTION_KINDS)}."
                )
        return load_path(name, **options)  # type: ignore[arg-type]  # values are checked inside
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
