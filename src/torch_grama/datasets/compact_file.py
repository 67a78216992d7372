"""The stored compact form: one compressed ``.npz`` with a versioned header, written atomically."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from torch_grama.datasets.atomic_file import write_atomically
from torch_grama.datasets.compact import Array, Column, CompactGraphs
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.raw_arrays import DAMAGE

FORMAT = "torch-grama compact graphs"
VERSION = 1


@dataclass(frozen=True)
class CompactFile:
    r"""What a compact file holds.

    Attributes:
        graphs: The graphs.
        signature: What they were made from; a file with another signature is stale.
        extras: Further arrays, such as the indices of a split.
    """

    graphs: CompactGraphs
    signature: str = ""
    extras: Mapping[str, Array] = field(default_factory=dict)


def write_compact(path: Path, content: CompactFile) -> None:
    r"""Writes a compact file under a temporary name and renames it.

    Equal content gives equal bytes.

    Args:
        path (Path): Where the file is to lie; its folder is made.
        content (CompactFile): What to write.
    """
    graphs = content.graphs
    header = {
        "format": FORMAT,
        "version": VERSION,
        "layout": graphs.layout,
        "signature": content.signature,
        "columns": {n: [c.level, c.dtype] for n, c in graphs.columns.items()},
        "extras": sorted(content.extras),
    }
    arrays: dict[str, Array] = {
        "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
        "num_nodes": graphs.num_nodes,
        "num_edges": graphs.num_edges,
        "edges": graphs.edges,
    }
    arrays |= {f"column/{name}": c.values for name, c in sorted(graphs.columns.items())}
    arrays |= {f"extra/{name}": np.asarray(v) for name, v in sorted(content.extras.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_compact(path: Path) -> CompactFile:
    r"""Reads a compact file.

    Args:
        path (Path): The file.

    Raises:
        DatasetError: If it is not such a file, is damaged or was written by another version.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            header = json.loads(bytes(archive["header"]))
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise DatasetError(
                    f"Expected '{path}' to be of version {VERSION} of '{FORMAT}' (got version "
                    f"{header['version']} of '{header['format']}'); delete it to have it made again"
                )
            columns = {
                name: Column(level, archive[f"column/{name}"], np.dtype(dtype).name)
                for name, (level, dtype) in header["columns"].items()
            }
            graphs = CompactGraphs(
                archive["num_nodes"],
                archive["num_edges"],
                archive["edges"],
                columns,
                header["layout"],
            )
            extras = {name: archive[f"extra/{name}"] for name in header["extras"]}
            return CompactFile(graphs, str(header["signature"]), extras)
    except DatasetError:
        raise
    except DAMAGE as error:
        raise DatasetError(
            f"Expected '{path}' to be a complete file of compact graphs (got: {error}); "
            "delete it to have it made again"
        ) from error


def cached(path: Path, signature: str | None, build: Callable[[], CompactFile]) -> CompactFile:
    r"""Reads a compact file, or makes it where it is missing, stale or damaged.

    A folder that cannot be written to costs a warning, never the data.

    Args:
        path (Path): The compact file.
        signature (str, optional): What the file must have been made from; :obj:`None` accepts any
            (the source is gone).
        build (callable): Makes the content.
    """
    if path.is_file():
        try:
            found = read_compact(path)
        except DatasetError:
            found = None
        if found is not None and signature in (None, found.signature):
            return found
    made = build()
    content = CompactFile(made.graphs, signature or made.signature, made.extras)
    try:
        write_compact(path, content)
    except OSError as error:
        warnings.warn(
            f"Could not keep '{path}' ({error}); the data will be prepared again next time. "
            "Set GRAMA_CACHE to a folder that can be written to.",
            stacklevel=2,
        )
    return content
