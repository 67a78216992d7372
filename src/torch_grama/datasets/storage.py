"""Where the files of a data set lie: found locally, fetched otherwise, prepared once."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch_grama.datasets.download import fetch
from torch_grama.datasets.entry import DataFile, Entry, Source
from torch_grama.datasets.errors import DatasetMissingError, DownloadError

if TYPE_CHECKING:
    from torch_grama.datasets.compact import CompactFile

Report = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""


class Storage:
    r"""The folders a load may use.

    Files are looked for in ``root``, then in the folder named by ``GRAMA_DATA``, then in the
    user's cache; only what is in none of them is fetched. Everything written (downloads, prepared
    forms, transforms) goes to ``root``, or else to the folder named by ``GRAMA_CACHE``, or else to
    ``~/.cache/torch_grama``. The folder of ``GRAMA_DATA`` is never written to.
    """

    def __init__(self, root: str | Path | None = None, report: Report | None = None) -> None:
        named = os.environ.get("GRAMA_CACHE")
        fallback = Path(named).expanduser() if named else cache_folder()
        chosen = fallback if root is None else Path(root).expanduser()
        shared = os.environ.get("GRAMA_DATA")
        if shared and chosen.resolve() == Path(shared).expanduser().resolve():
            chosen = fallback
        self.root = chosen
        self.report: Report = report or (lambda what, done, total: None)

    def find(self, file: DataFile) -> Path | None:
        r"""Returns the local copy of a file (or of a folder), if there is one."""
        places = (folder / file.path for folder in self._folders())
        return next((place for place in places if place.exists()), None)

    def get(self, file: DataFile, dataset: str) -> Path:
        r"""Returns a local copy of a published file, fetching it only where there is none.

        A local file is taken as it is; a fetched one goes into ``root``.
        """
        found = self.find(file)
        if found is not None:
            return found
        label = file.name if file.md5 else f"{file.name} (no checksum is documented)"
        cause: DownloadError | None = None
        if os.environ.get("GRAMA_OFFLINE", "").strip().lower() not in ("", "0", "false", "no"):
            reason = "GRAMA_OFFLINE forbids the network"
        elif not file.urls:
            reason = "no address of it is published"
        else:
            try:
                return fetch(
                    file,
                    self.root,
                    progress=lambda done, total: self.report(label, done, total),
                )
            except DownloadError as error:
                reason, cause = str(error).removesuffix("."), error
        folders = ", ".join(f"'{folder}'" for folder in self._folders())
        again = f", or run `grama data get {dataset}` where there is a network" if file.urls else ""
        raise DatasetMissingError(
            f"'{file.path}' is in none of the folders {folders} and could not be fetched "
            f"({reason}): put the file at '{self.root / file.path}'{again}."
        ) from cause

    def find_source(self, sources: Sequence[Source]) -> tuple[Source, list[Path]] | None:
        r"""Returns the first readable source whose files are all here, with their paths."""
        for source in sources:
            paths = [self.find(file) for file in source.files]
            if _missing_modules(source):
                continue
            found = [path for path in paths if path is not None]
            if len(found) == len(source.files):
                return source, found
        return None

    def obtain(self, entry: Entry) -> tuple[Source, list[Path]]:
        r"""Returns a source of a data set and its files, fetching them if need be."""
        here = self.find_source(entry.sources)
        if here is not None:
            return here
        hint = self._install_hint(entry)
        for source in entry.sources:
            public = all(file.urls or self.find(file) for file in source.files)
            if public and not _missing_modules(source):
                try:
                    return source, [self.get(file, entry.name) for file in source.files]
                except DatasetMissingError as error:
                    raise DatasetMissingError(f"{error} {hint}".strip()) from error.__cause__
        places = " or ".join(
            " and ".join(f"'{file.path}'" for file in source.files) for source in entry.sources
        )
        raise DatasetMissingError(
            hint
            or f"'{entry.name}' is not here and has no public address that can be read as "
            f"installed: put {places} into '{self.root}'."
        )

    def prepared(
        self, entry: Entry, version: int, build: Callable[[Source, list[Path]], CompactFile]
    ) -> CompactFile:
        r"""Returns a data set in its compact form, preparing it once.

        The prepared form is used as long as the files it was made from are unchanged, or gone, and
        the version of ``build`` is the same.
        """
        from torch_grama.datasets.compact import cached

        path = self.compact_path(f"{entry.name}-v{version}")
        here = self.find_source(entry.sources)
        if here is not None:
            source, paths = here
            return cached(path, _signature(source, paths), lambda: build(source, paths))

        def fetch_and_build() -> CompactFile:
            source, paths = self.obtain(entry)
            made = build(source, paths)
            return replace(made, signature=_signature(source, paths))

        return cached(path, None, fetch_and_build)

    def generated(self, key: str, build: Callable[[], CompactFile]) -> CompactFile:
        r"""Returns a generated data set in its compact form, generating it once for a key that
        holds everything the data depends on.
        """
        from torch_grama.datasets.compact import cached

        return cached(self.compact_path(key), key, build)

    def compact_path(self, key: str) -> Path:
        r"""Returns where the compact form of that name lies."""
        return self.root / "compact" / f"{key}.npz"

    def _folders(self) -> list[Path]:
        named = os.environ.get("GRAMA_DATA")
        return list(dict.fromkeys([self.root, *([Path(named)] if named else []), cache_folder()]))

    def _install_hint(self, entry: Entry) -> str:
        """What to install for files that are here but cannot be read as things are."""
        for source in entry.sources:
            missing = _missing_modules(source)
            if missing and all(self.find(file) for file in source.files):
                return (
                    f"Reading '{self.find(source.files[0])}' takes {' and '.join(missing)}, which "
                    "cannot be imported: run `pip install 'torch-grama[molecules]'`."
                )
        return ""


def cache_folder() -> Path:
    r"""Returns the user's folder for fetched data, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "torch_grama"


def _missing_modules(source: Source) -> list[str]:
    return [name for name in source.modules if importlib.util.find_spec(name) is None]


def _signature(source: Source, paths: Sequence[Path]) -> str:
    """What a prepared form was made from: sizes and times tell a changed file cheaply."""
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return f"{source.name}: {stats}"
