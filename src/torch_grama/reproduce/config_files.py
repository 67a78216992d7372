"""Where the configurations and the numbers of this project lie."""

from __future__ import annotations

from pathlib import Path

import torch_grama

CHECKOUT = Path(torch_grama.__file__).parents[2]
"""The folder of the project, where the package runs from a checkout of it."""
CONFIGS = Path(torch_grama.__file__).parent / "configs"
RESULTS = Path(torch_grama.__file__).parent / "results"
"""The numbers that come with the package."""


class FolderMissingError(ValueError):
    r"""A folder of the project is not where it should be."""


def find_config(name: str | Path) -> Path:
    r"""Finds a file of settings or a space: as it is named, or, such as ``hetero/minesweeper-gcn``,
    among those of the package.
    """
    path = Path(name)
    own = CONFIGS / f"{str(name).removeprefix('configs/').removesuffix('.yaml')}.yaml"
    return path if path.exists() or not own.is_file() else own


def find_configs(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the configurations: that of the package, unless the caller names one."""
    return _check_folder(Path(given) if given else CONFIGS, "configs")


def find_results(given: str | Path | None = None) -> Path:
    r"""Finds the folder of the numbers that are kept: that of the package, unless the caller names
    one.
    """
    return _check_folder(Path(given) if given else RESULTS, "results")


def _check_folder(place: Path, name: str) -> Path:
    if place.is_dir():
        return place
    raise FolderMissingError(f"Expected a folder '{place}'; name another with `--{name}`")
