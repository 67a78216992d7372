"""All figures of these pages: `python docs/figures/gallery.py FOLDER` draws them.

Each is a module of this folder with a function `draw(ink)` that returns a matplotlib figure.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "src")]

import matplotlib  # noqa: E402

matplotlib.use("Agg")

import torch  # noqa: E402

from figures.ink import INKS, Ink  # noqa: E402

NO_FIGURES = {"__init__", "gallery", "ink", "small_graphs"}
NAMES = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in NO_FIGURES)


def figure_file(folder: Path, name: str, ink: Ink) -> Path:
    """Returns where a figure lies."""
    return folder / f"{name}-{ink.theme}.svg"


def draw_all(folder: Path) -> list[str]:
    """Draws every figure that is missing or older than its module; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [name for name in NAMES if not _is_fresh(folder, name)]
    for name in drawn:
        draw = import_module(f"figures.{name}").draw
        for ink in INKS:
            torch.manual_seed(0)
            with ink.used():
                figure = draw(ink)
                path = figure_file(folder, name, ink)
                figure.savefig(path, metadata={"Date": None}, bbox_inches="tight", dpi=160)
                matplotlib.pyplot.close(figure)
    return drawn


def _is_fresh(folder: Path, name: str) -> bool:
    shared = [HERE / "ink.py", HERE / "small_graphs.py", HERE / f"{name}.py"]
    newest = max(path.stat().st_mtime for path in shared)
    files = [figure_file(folder, name, ink) for ink in INKS]
    return all(path.is_file() and path.stat().st_mtime > newest for path in files)


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(sys.argv[1])
    for drawn_name in draw_all(target):
        print(target / drawn_name)
