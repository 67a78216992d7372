"""The runs below one folder: found, summarised, and their pages kept until a file changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from torch_grama.report.page import Page, build_page
from torch_grama.report.page_cards import Card, summarize_run
from torch_grama.runs.run_files import find_runs, is_run, read_run_files
from torch_grama.runs.run_folder import LIMITS, RunError

# A run whose files changed within this many seconds counts as running.
_FRESH = 120.0
_MAX_LISTED = 300
_MAX_PAGES = 4
_FILES = (*LIMITS, "checkpoints/last.ckpt")

Signature = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ListedRun:
    r"""A line of the list."""

    path: str  #: where the run lies, relative to the folder that is watched
    address: str  #: the same as part of an address
    card: Card  #: its summary
    state: str  #: ``"finished"``, ``"running"`` or ``"stopped"``
    age: str  #: how long ago one of its files changed, in words


class WatchedRuns:
    r"""What a server shows of a folder of runs; safe to use from several threads.

    Args:
        root (str or Path): The folder.

    Raises:
        RunError: There is no such folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise RunError(f"There is no folder '{root}'; name the folder that holds runs")
        self._building = threading.Lock()

    def list_runs(self) -> tuple[list[ListedRun], int]:
        r"""The newest runs, and how many there are in all."""
        found = find_runs(self.root)
        listed = []
        for folder in found[:_MAX_LISTED]:
            try:
                listed.append(self._listed(folder))
            except RunError:  # it went away meanwhile
                continue
        order = {"running": 0, "finished": 1, "stopped": 1}
        listed.sort(key=lambda run: order[run.state])
        return listed, len(found)

    def find(self, path: str) -> Path:
        r"""The folder of a run, by its path below the root.

        Args:
            path (str): Names with slashes between, as in an address, decoded; empty or ``"."`` for
                the root itself.

        Raises:
            RunError: It leads out of the root, or there is no run.
        """
        names = [] if path in ("", ".") else path.split("/")
        if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
            raise RunError("There is no such run")
        try:
            folder = self.root.joinpath(*names).resolve()
            if folder.is_relative_to(self.root) and folder.is_dir() and is_run(folder):
                return folder
        except (OSError, ValueError, RuntimeError):  # a name that no file can have
            pass
        raise RunError("There is no such run")

    def page(self, folders: Sequence[Path]) -> Page:
        r"""The report of runs, built anew when one of their files changed.

        Args:
            folders (sequence of Path): What :meth:`find` returned.

        Raises:
            RunError: A run is gone, or the page would be too large.
        """
        with self._building:  # one at a time: the others find it made
            return _make_page(self.root, tuple(folders), tuple(map(_sign, folders)))

    def _listed(self, folder: Path) -> ListedRun:
        signature = _sign(folder)
        card = _make_card(folder, signature)
        age = max(0.0, time.time() - max((changed for changed, _ in signature), default=0) / 1e9)
        state = card.state
        if state != "finished":
            state = "running" if age < _FRESH else "stopped"
        path = folder.relative_to(self.root).as_posix()
        return ListedRun(path, quote(path), card, state, format_age(age))


@lru_cache(maxsize=4 * _MAX_LISTED)
def _make_card(folder: Path, signature: Signature) -> Card:
    return summarize_run(read_run_files(folder, brief=True))


@lru_cache(maxsize=_MAX_PAGES)
def _make_page(root: Path, folders: tuple[Path, ...], signatures: tuple[Signature, ...]) -> Page:
    runs = [read_run_files(folder) for folder in folders]
    places = {folder: quote(folder.relative_to(root).as_posix()) for folder in folders}
    links = {str(folder): f"/file/{place}" for folder, place in places.items()}
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return build_page(runs, title, links, home="/")


def format_age(seconds: float) -> str:
    r"""How long ago, in words."""
    for length, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {word} ago"
    return "just now"


def _sign(folder: Path) -> Signature:
    r"""Times and sizes of the files of a run."""
    signed = []
    for name in _FILES:
        try:
            facts = (folder / name).lstat()
        except OSError:
            continue
        signed.append((facts.st_mtime_ns, facts.st_size))
    return tuple(signed)
