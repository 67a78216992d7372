"""The colours of the figures, on light and on dark pages; told apart by the colour-blind too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
from matplotlib.colors import LinearSegmentedColormap


@dataclass(frozen=True)
class Ink:
    """What a figure is drawn with.

    Attributes:
        theme: ``"light"`` or ``"dark"``.
        text: Writing and axes.
        faint: Grids, edges of graphs and what stays in the background.
        paper: The colour behind.
        colors: One after another for what is compared; after Okabe and Ito.
        ramp: The colour map of quantities from nothing to much.
        signs: The colours of negative and positive quantities.
    """

    theme: str
    text: str
    faint: str
    paper: str
    colors: tuple[str, ...]
    ramp: str
    signs: tuple[str, str]

    @property
    def diverging(self) -> LinearSegmentedColormap:
        """The colour map of quantities of both signs; nothing has the colour of the page."""
        negative, positive = self.signs
        return LinearSegmentedColormap.from_list("signs", [negative, self.paper, positive])

    @contextmanager
    def used(self) -> Iterator[None]:
        """Draws with this ink inside a ``with``."""
        settings = {
            "axes.edgecolor": self.faint,
            "axes.facecolor": "none",
            "axes.grid": True,
            "axes.labelcolor": self.text,
            "axes.prop_cycle": matplotlib.cycler(color=self.colors),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlecolor": self.text,
            "axes.titlesize": 10,
            "figure.facecolor": "none",
            "font.size": 9.5,
            "grid.alpha": 0.35,
            "grid.color": self.faint,
            "legend.framealpha": 0.0,
            "legend.labelcolor": self.text,
            "lines.linewidth": 1.8,
            "mathtext.fontset": "dejavusans",
            "savefig.facecolor": "none",
            "svg.fonttype": "path",
            "svg.hashsalt": "torch-grama",
            "text.color": self.text,
            "xtick.color": self.text,
            "ytick.color": self.text,
        }
        with matplotlib.rc_context(settings):
            yield


LIGHT = Ink(
    theme="light",
    text="#22262b",
    faint="#a6adb5",
    paper="#ffffff",
    colors=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"),
    ramp="YlGnBu",
    signs=("#d55e00", "#0072b2"),
)
DARK = Ink(
    theme="dark",
    text="#dfe3e8",
    faint="#6b737c",
    paper="#131416",
    colors=("#56b4e9", "#e69f00", "#2fc49a", "#e59cc4", "#f0e442", "#9db7ff"),
    ramp="viridis",
    signs=("#e69f00", "#56b4e9"),
)
INKS = (LIGHT, DARK)
