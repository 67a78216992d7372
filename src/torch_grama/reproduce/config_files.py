"""Where the configurations and the numbers of this project lie."""

from __future__ import annotations

from pathlib import Path

import torch_grama

CONFIGS = "configs"
RESULTS = "results"


class FolderMissingError(ValueError):
    r"""A folder of the project is not where it should be."""


def find_project_folder(name: str, given: str | Path | None = None) -> Path:
    r"""Finds ``configs`` or ``results``: where the caller says, in the current folder, in the
    checkout that the package runs from, or beside the installed package.

    Args:
        name (str): The name of the folder.
        given (str or Path, optional): Where the caller says it is. (default: :obj:`None`)

    Raises:
        FolderMissingError: If it is nowhere.
    """
    package = Path(torch_grama.__file__).parent
    places = [Path(given)] if given else [Path(name), package.parents[1] / name, package / name]
    for place in places:
        if place.is_dir():
            return place
    raise FolderMissingError(
        f"Expected a folder '{name}' in {', '.join(str(place) for place in places)}; run in a "
        f"checkout of torch-grama, or name it with `--{name}`"
    )
