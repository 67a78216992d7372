"""Tunes a row of an experiment on validation before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch_grama.experiments.settings import known_options, mapping_of
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError
from torch_grama.search.search_settings import Repeat
from torch_grama.search.space import Space
from torch_grama.search.sweep_progress import SweepReport
from torch_grama.search.sweep_result import BEST
from torch_grama.search.tune import SPACE, run_sweep

SWEEP = "sweep"
# What makes a row the row that it is.
_BACKBONE = ("model.backbone", "model.backbone_options")
_IDENTITY = {"data.name", "data.fold", "seed", "model.name", *_BACKBONE}
_PARTS_OF_DEPTH = {"model.seq_len", "model.num_blocks", "model.num_recurrences"}
_DEPTH = "model.num_layers"


def tune_row(
    folder: Path,
    settings: Mapping[str, object],
    repeat: Repeat,
    space: Space,
    address: str | None = None,
    report: SweepReport = "auto",
) -> Path | None:
    r"""Searches the settings of a row on the folds and seeds that it will be run on.

    Trials are compared on the mean of their validation scores; the test part is not read. The
    settings chosen are written beside the runs as ``best.yaml``, from where all runs of the row
    take them; the sweep lies in ``sweep/``. A row that has its ``best.yaml`` is left as it is, and
    a sweep that was interrupted goes on. :obj:`None` where nothing of the space applies to the
    model.
    """
    if (folder / BEST).is_file():
        return folder / BEST
    if any(path.name != SWEEP for path in folder.glob("*/")):
        raise RunError(
            f"'{folder}' has runs that were not tuned: delete the folder, or name another place "
            f"with `--runs`"
        )
    narrowed = narrow_space(space, settings)
    if not narrowed.domains:
        return None
    place = folder / SWEEP
    result = run_sweep(
        replace(narrowed, repeat=repeat),
        place,
        resume=(place / SPACE).is_file(),
        address=address,
        report=report,
    )
    if result.best is None:
        raise RunError(
            f"No trial of '{place}' came to its end: each says why in its 'failure.json'; delete "
            f"the folder to begin again"
        )
    write_atomically(folder / BEST, (place / BEST).read_bytes())
    return folder / BEST


def narrow_space(space: Space, settings: Mapping[str, object]) -> Space:
    r"""Returns the part of a space that applies to one row.

    The settings of the row win over the base of the space, and what the space searches over both;
    but the row keeps its data, model and backbone, and what its model does not have is not
    searched.
    """
    known = known_options(str(settings["model.name"]))
    domains = {
        name: domain
        for name, domain in space.domains.items()
        if name in known and name not in _IDENTITY
    }
    base = {
        name: value
        for name, value in {**space.base, **settings}.items()
        if (name in known or mapping_of(name) in known)
        and name not in domains
        and name not in {"data.fold", "seed"}
    }
    if "model.backbone" not in settings:
        for name in _BACKBONE:
            base.pop(name, None)  # the word of the model says it
    if _PARTS_OF_DEPTH & domains.keys():
        base.pop(_DEPTH, None)
    elif _DEPTH in domains:
        base = {name: value for name, value in base.items() if name not in _PARTS_OF_DEPTH}
    return replace(space, base=base, domains=domains)
