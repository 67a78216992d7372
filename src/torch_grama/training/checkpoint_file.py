"""Checkpoints that are whole or not there, and hold data alone."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from pytorch_lightning.plugins import CheckpointIO

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.safe_files import read_plain

Checkpoint: TypeAlias = dict[str, object]
VERSION = "torch_grama"
"""Where a checkpoint says which version of this package wrote it; those before 0.2 say nothing."""


class CheckpointError(RuntimeError):
    r"""A checkpoint that cannot be used: damaged, of another format, or not there."""


def write_checkpoint(path: Path, content: Mapping[str, object]) -> None:
    r"""Writes tensors and plain values so that they appear whole or not at all."""
    buffer = io.BytesIO()
    torch.save(dict(content), buffer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def read_checkpoint(path: Path) -> Checkpoint:
    r"""Reads a checkpoint after checking that it is the one that was written.

    Args:
        path (Path): The file.

    Raises:
        CheckpointError: If it is missing, cut short, changed, or holds more than data.
    """
    try:
        archive = read_plain(path)
    except OSError as error:
        raise CheckpointError(
            f"Expected a checkpoint at '{path}' (got: {error.strerror}); train again, or name "
            "another run"
        ) from error
    try:
        # torch.save writes a zip archive, which has a checksum of each part
        with zipfile.ZipFile(io.BytesIO(archive)) as parts:
            broken = parts.testzip()
    except Exception as error:  # whatever a reader stumbles over, the file is not what was written
        raise CheckpointError(
            f"Expected a whole checkpoint at '{path}' (got a file of {len(archive)} bytes that was "
            f"cut short or is no checkpoint of a run: {error}); it was not loaded"
        ) from error
    if broken is not None:
        raise CheckpointError(
            f"Expected '{path}' to match its checksums (got other content in '{broken}'); it was "
            "not loaded"
        )
    try:
        content = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(
            f"Expected tensors and plain values alone in '{path}' (got something else: "
            f"{str(error).splitlines()[0]}); it was not loaded"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"Expected a dictionary in '{path}' (got {type(content).__name__}); it was not loaded"
        )
    return content


def replace_checkpoint(path: Path, content: Mapping[str, object]) -> None:
    r"""Writes a checkpoint and keeps the one before under the name of :func:`previous_path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        write_checkpoint(new, content)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if path.exists():
        _keep(path)
    new.replace(path)


def previous_path(path: Path) -> Path:
    r"""Where the checkpoint before the one at :obj:`path` is kept."""
    return path.with_name(f"previous-{path.name}")


def read_latest(path: Path) -> tuple[Checkpoint, Path, str]:
    r"""Reads the newest good one of a checkpoint and the one kept before it; also returns the file
    it comes from and a sentence on what was refused, if anything was.

    A file that is refused is renamed, so that it is never kept in place of a good one.
    """
    previous = previous_path(path)
    refused: list[str] = []
    for candidate in (path, previous):
        if not candidate.exists():
            continue
        try:
            content = read_checkpoint(candidate)
        except CheckpointError as error:
            refused.append(str(error))
            continue
        note = f"{refused[0]}; going on from '{candidate}'" if refused else ""
        if refused:
            path.replace(path.with_name(f"refused-{path.name}"))
        return content, candidate, note
    found = "; ".join(refused) or "neither is there"
    raise CheckpointError(
        f"Expected a good checkpoint at '{path}' or '{previous}' (got none: {found}); start the "
        "run again"
    )


class SafeCheckpointIO(CheckpointIO):
    r"""Lets Lightning save and load checkpoints in this way, with the previous one kept."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        r"""Writes a checkpoint and keeps the one before."""
        replace_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        r"""Reads a checkpoint; only tensors and plain values, whatever is asked for."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        r"""Removes a checkpoint."""
        Path(path).unlink(missing_ok=True)


def _keep(path: Path) -> None:
    # a second name first, so that there is a file under the usual name at every moment
    second = path.with_name(f".{path.name}.kept")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:  # a file system without links: a short moment without the usual name
        path.replace(previous_path(path))
        return
    second.replace(previous_path(path))
