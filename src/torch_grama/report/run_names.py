"""Names that tell the runs of a page apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch_grama.runs.run_files import RunFiles, clip

# Folders of reproductions differ within their last five parts.
_MAX_PARTS = 6


def name_apart(runs: Sequence[RunFiles]) -> list[RunFiles]:
    r"""Puts as many outer folders before a name as it takes to tell the runs apart, as in
    ``gcn/fold0-seed0`` and ``grama-gcn/fold0-seed0``; a name that is alone stays as it is.

    Args:
        runs (sequence of RunFiles): The runs of one page.
    """
    groups: dict[str, list[tuple[str, ...]]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run.folder.resolve().parts)
    lengths = {name: _count_parts(places) for name, places in groups.items()}
    return [
        replace(run, name=clip("/".join(run.folder.resolve().parts[-lengths[run.name] :]), 120))
        if lengths[run.name] > 1
        else run
        for run in runs
    ]


def _count_parts(places: Sequence[tuple[str, ...]]) -> int:
    """How many parts from the end it takes until no two places are alike."""
    different = len(set(places))
    for length in range(1, _MAX_PARTS):
        if len({place[-length:] for place in places}) == different:
            return length
    return _MAX_PARTS
