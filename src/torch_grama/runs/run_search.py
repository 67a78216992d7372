"""Finds the runs in a folder, without following links out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch_grama.runs.run_folder import CONFIG, RESULT

# How deep and how many: a folder of reproductions is five deep.
_MAX_DEPTH = 6
_MAX_RUNS = 2000


def find_runs(folder: Path) -> list[Path]:
    r"""All folders below that hold a run, newest first; links are not followed.

    Args:
        folder (Path): Where to look; it may be a run itself.
    """
    found = []
    for place in _walk(folder, 0):
        found.append(place)
        if len(found) == _MAX_RUNS:
            break
    return sorted(found, key=_changed, reverse=True)


def expand_folders(folders: Sequence[Path]) -> list[Path]:
    r"""Runs stay as they are; a folder of runs, such as one of folds, becomes its runs.

    Args:
        folders (sequence of Path): As named by the user.
    """
    expanded: list[Path] = []
    for folder in folders:
        inside = [] if is_run(folder) else sorted(find_runs(folder))
        expanded += inside or [folder]
    return list(dict.fromkeys(expanded))


def is_run(folder: Path) -> bool:
    r"""Whether there is a file of a run in a folder."""
    return any(os.path.lexists(folder / name) for name in (CONFIG, RESULT))


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    if depth == _MAX_DEPTH:
        return
    try:
        with os.scandir(folder) as entries:
            inner = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return
    for name in inner:
        yield from _walk(folder / name, depth + 1)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
