"""Matched pairs: GRAMA around a backbone against that backbone, of the same size and effort.

Both sides of a pair have the same input stage, head, epochs, batches and schedule. Their widths are
set so that both have the number of parameters that the column states; both are tuned with the same
number of settings on validation.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.catalogue import is_path
from torch_grama.experiments.config import DataConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import assemble_model, count_parameters
from torch_grama.experiments.settings import (
    MOST_ATTENDED_NODES,
    check_settings,
    known_options,
    mapping_of,
    resolve_config,
)
from torch_grama.nn.arguments import choose
from torch_grama.reproduce.reproduction import (
    BEST,
    FAILURE,
    PlannedRun,
    config_of,
    repeats_of,
    resolve_row,
)
from torch_grama.reproduce.suite import Budget, Suite, SuiteData, Tuning, find_configs, find_suite
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import read_yaml, seal_data, to_yaml
from torch_grama.training.checkpoint_file import FREE, hash_data

SEARCH = "search"
REQUEST = "request.yaml"
"""Keeps what pairs on a user's own data were started with."""
OWN = "own"
"""The budget of pairs on a user's own data."""
PAIRS = {
    "gcn": ("gcn", "grama-gcn"),
    "gcn-root": ("tuned-gcn", "grama-gcn-root"),
    "gcnii": ("gcnii", "grama-gcnii"),
    "gatedgcn": ("tuned-gatedgcn", "grama-gatedgcn"),
    "gin": ("gin", "grama-gin"),
    "gps": ("gps-gcn", "grama-gps"),
    "neighbor-sum": ("tuned-neighbor-sum", "grama-neighbor-sum"),
}
"""Name of a backbone to its rows: the backbone with norm and residuals, and GRAMA around it."""
WIDTH = "model.hidden_channels"
MOST_APART = 0.05
"""How far the parameters of a row may be from the number that its pair states, as a share."""


class OwnPairs(NamedTuple):
    r"""Pairs on one data set."""

    suite: Suite  # with one budget, OWN
    facts: DataFacts  # what the data is like
    num_folds: int
    request: dict[str, object]  # all that was asked for
    values: str  # a hash of the data


def suite_of(
    settings: Mapping[str, object],
    backbones: Sequence[str] = (),
    *,
    parameters: int = 50_000,
    draws: int = 4,
    repeats: int = 3,
) -> OwnPairs:
    r"""Makes a suite of pairs for one data set, such as a user's own."""
    data = _load(settings)
    facts = DataFacts.of(data)
    if not backbones:
        small = facts.mean_nodes <= MOST_ATTENDED_NODES
        backbones = ["gcn", "gatedgcn", *(["gps"] if small else [])]
    pairs = [choose("backbone", word, PAIRS) for word in backbones]
    if facts.edge_encoding.kind != "none":  # attention beside a convolution that reads the edges
        pairs = [
            ("gps-gine", grama) if alone == "gps-gcn" else (alone, grama) for alone, grama in pairs
        ]
    # what is set is not drawn; a series is the sequence, or all of it are features
    lengths = (None, 1) if facts.seq_len else (2, 4)
    shapes: dict[str, tuple[object, ...]] = {
        "model.num_blocks": (1, 2),
        "model.seq_len": lengths,
    }
    spaces: list[dict[str, tuple[object, ...]]] = [
        {name: choices for name, choices in space.items() if name not in settings}
        for space in (
            {"optimizer.lr": (1e-3, 3e-3, 1e-2), "model.dropout": (0.0, 0.2, 0.5)},
            {"model.num_layers": (2, 4)},
            shapes,
        )
    ]
    name = str(settings["data.name"])
    column = SuiteData(
        Path(name).name if is_path(name) else name,
        name,
        data.metric.name,
        changes={"trainer.max_epochs": 100, "trainer.patience": 30, **settings},
        pairs=tuple(pairs),
        parameters=parameters,
        tuning=Tuning(draws, 1, spaces[0], (spaces[1], spaces[2])),
    )
    kept = find_suite("pairs", find_configs(None))
    suite = replace(
        kept,
        # nothing of a kept row, which may have the name of this data
        folder=kept.folder / OWN,
        rows={name: settings for name, settings in kept.rows.items() if "/" not in name},
        title=f"GRAMA around a backbone, and the backbone alone, on {column.label}",
        data=(column,),
        budgets={OWN: Budget(repeats)},
    )
    length = ("trainer.max_epochs", "trainer.patience")  # what is done is not made longer
    request = {
        **{name: value for name, value in settings.items() if name in length or name not in FREE},
        "parameters": parameters,
        "draws": draws,
    }
    return OwnPairs(suite, facts, len(data.folds), request, hash_data(data, 0))


def check_request(folder: Path, request: Mapping[str, object], values: str) -> None:
    r"""Keeps what was asked for in a folder of runs, and refuses to go on with anything else."""
    path = folder / REQUEST
    seal_data(folder, values)
    if not path.is_file():
        write_atomically(path, to_yaml(dict(request)).encode())
        return
    before = read_yaml(path)
    if not isinstance(before, Mapping):
        raise RunError(f"'{path}' holds no mapping: choose another folder with `--runs`")
    for name in sorted({*before, *request} - {"values of the data"}):  # of an earlier version
        old, new = before.get(name, "not set"), request.get(name, "not set")
        if old != new:
            raise RunError(
                f"Expected '{name}' as the pairs in '{folder}' were started with ({old}, got "
                f"{new}): restore it, or choose another folder with `--runs`"
            )


def draw_settings(
    tuning: Tuning,
    side: int,
    row: str = "",
    complete: Callable[[Mapping[str, object]], dict[str, object]] = dict,
) -> list[dict[str, object]]:
    r"""Draws the settings that a side of a pair (0 the backbone, 1 GRAMA) is tried with, always the
    same ones: what both sides have is equal on both, but for what a row draws by itself. No two of
    them are the same run once they are made complete.
    """
    shared, own = random.Random(0), random.Random(1 + side)
    blank: list[Mapping[str, object]] = [{}] * tuning.draws
    points = _draw_new(blank, tuning.space, shared) if tuning.space else blank
    return _draw_new(points, {**tuning.sides[side], **tuning.rows.get(row, {})}, own, complete)


def _draw_new(
    points: Sequence[Mapping[str, object]],
    space: Mapping[str, Sequence[object]],
    rng: random.Random,
    complete: Callable[[Mapping[str, object]], dict[str, object]] = dict,
) -> list[dict[str, object]]:
    """Adds a drawn value of each setting to each point; what is there already is drawn again, at
    last from another point, and left out if there seem to be no others."""
    drawn: list[dict[str, object]] = []
    for point in points:
        for attempt in range(200):
            base = point if attempt < 100 else rng.choice(points)
            values = {name: rng.choice(choices) for name, choices in space.items()}
            settings = complete({**base, **values})
            if settings not in drawn:
                drawn.append(settings)
                break
    return drawn


def complete_point(
    settings: Mapping[str, object], cell: Mapping[str, object], point: Mapping[str, object]
) -> dict[str, object]:
    r"""Adds to a drawn point what its row has; what the file states for a cell is not drawn."""
    return keep_known({**settings, **point, **cell})


def keep_known(settings: Mapping[str, object]) -> dict[str, object]:
    r"""Leaves out settings of a model that the model does not have, such as a norm."""
    known = known_options(str(settings["model.name"]))
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith("model.") or name in known or mapping_of(name) in known
    }


def match_width(settings: Mapping[str, object], parameters: int, facts: DataFacts) -> int:
    r"""Finds the width at which a model has as many parameters as asked for, or nearly; raises
    where none comes within :data:`MOST_APART`.
    """
    model = resolve_config(check_settings(("in the settings", settings)), facts).model

    @cache
    def count(width: int) -> int:
        sized = replace(model, hidden_channels=width)
        return count_parameters(assemble_model(sized, facts, facts.num_outputs))

    # heads divide the width of attention
    step = 2 if "gps" in f"{settings['model.name']} {settings.get('model.backbone')}" else 1
    low = high = step
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    width = min(low, high, key=lambda found: abs(count(found) - parameters))
    if abs(count(width) - parameters) > MOST_APART * parameters:
        raise ValueError(
            f"Expected a width at which '{settings['model.name']}' has {parameters:,} parameters, "
            f"within {MOST_APART:.0%} (the nearest, {width}, has {count(width):,}); choose another "
            f"number"
        )
    return width


@dataclass(frozen=True)
class PairedRow:
    r"""One side of a pair: what it is tried with, each of the size of the other side."""

    column: SuiteData  # the data set, with how its pairs are tuned
    row: str  # the name of the row
    place: Path  # where its runs lie
    # settings to try, under dotted names; none once the best of them is chosen
    candidates: Sequence[Mapping[str, object]]
    repeats: Sequence[tuple[int, int]]  # fold and seed of each run

    @property
    def num_tries(self) -> int:
        r"""The number of runs that a candidate is judged by."""
        if self.column.tuning is None or len(self.candidates) < 2:
            return 0
        return min(self.column.tuning.repeats, len(self.repeats))


def match_rows(
    suite: Suite,
    budget: str,
    root: Path,
    models: Sequence[str] = (),
    data: Sequence[str] = (),
    absent: Collection[str] = (),
    num_folds: Mapping[str, int] | None = None,
    known: Mapping[str, DataFacts] | None = None,
) -> list[PairedRow]:
    r"""Lists the sides of all pairs, each with the settings to try; one that has a configuration of
    its own in the folder of the suite is tried with that alone. A column whose facts are not known
    is read.
    """
    limits = suite.budgets[budget]
    rows = []
    for column in suite.columns(data, budget):
        if not column.pairs or column.label in absent:
            continue
        facts = (known or {}).get(column.label)
        for row in suite.rows_of(column, budget, models):
            place = root / suite.name / budget / column.label / row
            side = int(any(row == grama for _, grama in column.pairs))
            settings = resolve_row(suite, column, row, limits.changes)
            candidates: list[dict[str, object]] = []
            if config_of(suite, column, row).is_file():
                candidates = [keep_known(settings)]
            elif not (place / BEST).is_file():
                cell = suite.rows.get(f"{column.label}/{row}", {})
                complete = partial(complete_point, {**settings, **column.sides[side]}, cell)
                tuning = column.tuning or Tuning(1, 1, {}, ({}, {}))
                candidates = draw_settings(tuning, side, row, complete)
                for tried in candidates:
                    facts = facts or DataFacts.of(_load(tried))
                    size = column.sizes.get(row, column.parameters)
                    tried[WIDTH] = match_width(tried, size, facts)
            repeats = repeats_of(suite, range(limits.runs), (num_folds or {}).get(column.label))
            rows.append(PairedRow(column, row, place, candidates, repeats))
    return rows


def _load(settings: Mapping[str, object]) -> GraphTaskData:
    return load_data(DataConfig.from_settings(check_settings(("in the settings", settings))))


def plan_search(row: PairedRow) -> list[PlannedRun]:
    r"""Lists the runs that tune one side of a pair; none of them reads the test part."""
    changes = row.column.tuning.changes if row.column.tuning else {}
    return [
        PlannedRun(
            row.column.label,
            f"{row.row} #{number}",
            fold,
            seed,
            row.place / SEARCH / str(number) / f"fold{fold}-seed{seed}",
            {**settings, **changes, "data.fold": fold, "seed": seed, "test": False},
        )
        for number, settings in enumerate(row.candidates)
        for fold, seed in row.repeats[: row.num_tries]
    ]


def choose_best(row: PairedRow) -> Path:
    r"""Writes the settings of the best candidate, by the mean of its validation scores, as
    ``best.yaml``, from where all runs of the row take them. Settings that diverge are out. Raises
    where others have not come to their end, so that both sides choose among as many.
    """
    path = row.place / BEST
    if path.is_file():
        return path
    scores: dict[int, float] = {}
    planned = plan_search(row)
    unfinished = 0
    for number, _ in enumerate(row.candidates):
        own = [run for run in planned if run.folder.parent.name == str(number)]
        found = [Result.load(RunFolder(run.folder).result) for run in own if run.is_finished]
        if len(found) == len(own):
            sign = 1.0 if not found or found[0].higher_is_better else -1.0
            scores[number] = sign * statistics.fmean([run.val for run in found] or [0.0])
        elif not any(run.diverged for run in own):
            unfinished += 1
    if unfinished or not scores:
        what = (
            f"{unfinished} of {len(row.candidates)} settings have not come to their end; the same "
            "command goes on"
            if unfinished
            else "no setting came to its end, as each diverged"
        )
        raise RunError(
            f"Expected all of '{row.place / SEARCH}' to have been tried before the best is chosen: "
            f"{what} (a '{FAILURE}' says why a run failed)"
        )
    settings = row.candidates[max(scores, key=lambda number: scores[number])]
    row.place.mkdir(parents=True, exist_ok=True)
    write_atomically(path, to_yaml(settings).encode())
    return path
