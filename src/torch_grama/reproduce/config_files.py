"""Where the configurations and the numbers of this project lie."""

from __future__ import annotations

from pathlib import Path

import torch_grama

CHECKOUT = Path(torch_grama.__file__).parents[2]
"""The folder of the project, where the package runs from a checkout of it."""
CONFIGS = Path(torch_grama.__file__).parent / "configs"
RESULTS = "results"


class FolderMissingError(ValueError):
    r"""A folder of the project is not where it should be."""


def find_config(name: str | Path) -> Path:
    r"""Finds a file of settings or a space: as it is named, or among those of the package.

    Args:
        name (str or Path): A path, or a name such as ``hetero/minesweeper-gcn``.
    """
    path = Path(name)
    own = CONFIGS / f"{str(name).removeprefix('configs/').removesuffix('.yaml')}.yaml"
    return path if path.exists() or not own.is_file() else own


def find_configs(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the configurations: that of the package, unless the caller names one.

    Raises:
        FolderMissingError: If it is not there.
    """
    return _first_folder([Path(given) if given else CONFIGS], "configs")


def find_results(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the numbers that are kept: where the caller says, in the current folder,
    or in the checkout that the package runs from.

    Raises:
        FolderMissingError: If it is nowhere.
    """
    return _first_folder([Path(given)] if given else [Path(RESULTS), CHECKOUT / RESULTS], RESULTS)


def _first_folder(places: list[Path], name: str) -> Path:
    for place in places:
        if place.is_dir():
            return place
    raise FolderMissingError(
        f"Expected a folder '{name}' in {', '.join(map(str, places))}; run in a checkout of "
        f"torch-grama, or name it with `--{name}`"
    )
