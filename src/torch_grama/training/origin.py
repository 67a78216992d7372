"""What a run is made of: kept in its checkpoints, so that it goes on with the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torch_grama.datasets import CompactGraphs, GraphTaskData
from torch_grama.datasets.raw_arrays import Array, fingerprint
from torch_grama.runs.run_folder import RunError
from torch_grama.runs.safe_files import check_same_data
from torch_grama.runs.words import clip, format_count

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
        settings = before.get("settings") if isinstance(before, dict) else None
        if not isinstance(before, dict) or not isinstance(settings, dict):
            raise RunError(f"The checkpoint of '{run}' does not say its settings: start it again")
        changes = compare_settings(settings, self.settings, run)
        for mine, name in ((self.facts, "facts"), (self.values, "values")):
            check_same_data(str(before.get(name, "")), mine, run)
        kept = before.get("changes")
        told = tuple(map(str, kept)) if isinstance(kept, list | tuple) else ()
        here = tuple(f"{change} after {format_count(epochs, 'epoch')}" for change in changes)
        return replace(self, changes=told + here)

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return asdict(self)


def compare_settings(
    before: Mapping[str, object], now: Mapping[str, object], run: object
) -> list[str]:
    r"""Returns in words what has changed of the settings that a run was started with, as far as
    they are known; raises a :class:`RunError` where that may not change.
    """
    texts = {name: (_word(before[name]), _word(now.get(name))) for name in sorted(before)}
    differ = {
        name: f"from {clip(old, 60)} to {clip(new, 60)}"
        for name, (old, new) in texts.items()
        if old != new
    }
    fixed = [f"{name} {change}" for name, change in differ.items() if name not in FREE]
    if fixed:
        more = f" and {len(fixed) - 3} more" if len(fixed) > 3 else ""
        raise RunError(
            f"The settings of the run '{run}' were changed ({', '.join(fixed[:3])}{more}): put "
            f"them back in its config.yaml, or start a new run; a run goes on with the settings "
            f"it was started with, but for {', '.join(FREE)}"
        )
    return [f"{name} {change}" for name, change in differ.items()]


def hash_data(data: GraphTaskData, fold: int) -> str:
    r"""Returns a hash of all values of a data set and one of its divisions, but for encodings of
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


def _word(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
