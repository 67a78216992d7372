"""Checkpoints that are whole or not there, and hold data alone."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from pytorch_lightning.plugins import CheckpointIO
from torch import Tensor

from torch_grama.datasets import CompactGraphs, GraphTaskData
from torch_grama.datasets.raw_arrays import Array, fingerprint
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError
from torch_grama.runs.safe_files import check_same_data, read_plain
from torch_grama.runs.words import clip, format_count

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
        # a second name first, so that there is a file under the usual name at every moment
        second = path.with_name(f".{path.name}.kept")
        second.unlink(missing_ok=True)
        try:
            os.link(path, second)
        except OSError:  # a file system without links: a short moment without the usual name
            second = path
        second.replace(previous_path(path))
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
        replace_checkpoint(Path(path), checkpoint)

    def load_checkpoint(
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        r"""Reads a checkpoint; only tensors and plain values, whatever is asked for."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)


ORIGIN = "origin"
"""Where a checkpoint keeps it."""
FREE = (
    *("data.name", "data.root", "test", "trainer.accelerator", "trainer.capture"),
    *("trainer.devices", "trainer.max_epochs", "trainer.num_workers", "trainer.patience"),
    "trainer.save_every",
)
"""What may change when a run is resumed: where it runs, how long, and what it reads of its test
part. The data may lie elsewhere, since its values are compared."""

# Follow from the edges and from settings that are compared; other machines round otherwise.
_ENCODINGS = ("rwse", "lap_vectors", "lap_values")


@dataclass(frozen=True)
class Origin:
    r"""What a run is made of."""

    settings: Mapping[str, object]  # dotted names and values
    values: str = ""  # a hash of the data, see hash_data
    facts: str = ""  # a hash of what the model knows of the data
    changes: tuple[str, ...] = ()  # what was changed when the run was resumed, one sentence each

    def follow(self, checkpoint: Mapping[str, object], run: object, epochs: int = 0) -> Origin:
        r"""Makes sure that a run goes on with what it was started with, and returns this origin
        with the changes so far.

        A checkpoint of an earlier version may hold no origin, and is followed as it is;
        :obj:`epochs` tells how far the run came.
        """
        before = checkpoint.get(ORIGIN)
        if before is None:
            return self
        told = before if isinstance(before, dict) else {}
        earlier = told.get("changes", ())
        if not isinstance(told.get("settings"), dict) or not isinstance(earlier, list | tuple):
            raise RunError(f"The checkpoint of '{run}' does not say its settings: start it again")
        changes = compare_settings(told["settings"], self.settings, run)
        for mine, name in ((self.facts, "facts"), (self.values, "values")):
            check_same_data(str(told.get(name, "")), mine, run)
        here = (f"{change} after {format_count(epochs, 'epoch')}" for change in changes)
        return replace(self, changes=(*map(str, earlier), *here))


def compare_settings(
    before: Mapping[str, object], now: Mapping[str, object], run: object
) -> list[str]:
    r"""Says in words which settings of a run have changed; raises where one may not change."""
    changes, fixed = [], []
    for name in sorted(before):
        old, new = (
            json.dumps(value, sort_keys=True, default=str)
            for value in (before[name], now.get(name))
        )
        if old != new:
            changes.append(f"{name} from {clip(old, 60)} to {clip(new, 60)}")
            fixed += changes[-1:] if name not in FREE else []
    if fixed:
        more = f" and {len(fixed) - 3} more" if len(fixed) > 3 else ""
        raise RunError(
            f"The settings of the run '{run}' were changed ({', '.join(fixed[:3])}{more}): put "
            f"them back in its config.yaml, or start a new run; a run goes on with the settings "
            f"it was started with, but for {', '.join(FREE)}"
        )
    return changes


def hash_data(data: GraphTaskData, fold: int) -> str:
    r"""Returns a hash of all values of a data set and one of its splits, but for encodings of
    structure, which follow from them.
    """
    return fingerprint(_parts(data, fold))


def _parts(data: GraphTaskData, fold: int) -> Iterator[Array | str]:
    yield from (part.numpy() for part in data.folds[fold].parts)
    if isinstance(data.graphs, CompactGraphs):
        columns = data.graphs.columns.items()
        yield data.graphs.with_columns(
            {name: column for name, column in columns if name not in _ENCODINGS}
        ).fingerprint()
        return
    for graph in data.graphs:
        yield np.array(graph.num_nodes or 0)
        for name in sorted(set(graph.keys()) - set(_ENCODINGS)):
            value = graph[name]
            yield name
            if isinstance(value, Tensor) and value.layout == torch.strided:
                plain = value.detach().cpu()
                yield (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
            else:
                yield repr(value)
