"""What the user sees while data is fetched and prepared."""

from __future__ import annotations

from torch_grama.runs.bars import Bars


class LoadingProgress(Bars):
    r"""A bar for each thing that is done on a terminal; elsewhere one line."""

    def __init__(self, silent: bool = False) -> None:
        super().__init__(draw=False if silent else None)
        self._silent = silent
        self._told: set[str] = set()

    def report(self, what: str, done: int, total: int | None) -> None:
        r"""Takes what :class:`~torch_grama.datasets.storage.Storage` reports."""
        if not self.are_drawn and not self._silent and what not in self._told:
            self._told.add(what)
            self.say(f"{what} ...")
        self.show(what, done, total)
