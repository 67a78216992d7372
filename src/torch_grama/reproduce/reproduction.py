"""Which runs an experiment of the paper has, which of them are missing, and how they are run."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path

from torch_grama.datasets.catalogue import find, load_with
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.storage import Storage
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.run import RunInterrupted, run_experiment
from torch_grama.experiments.settings import make_config, read_file
from torch_grama.experiments.trivial_references import trivial_references
from torch_grama.nn.arguments import choose
from torch_grama.nn.backbone import BACKBONES
from torch_grama.reproduce.suite import Suite, SuiteData
from torch_grama.reproduce.worker_processes import prepare_workers
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunFolder
from torch_grama.runs.words import name_nearest
from torch_grama.training.progress import ReportName
from torch_grama.training.task import NonFiniteLossError

FAILURE = "failure.json"
BEST = "best.yaml"
MODEL = "model."
ABSENT = "data not here"
# What may stand at the end of a word, such as -l16s4, -width64, -depth8.
SIZES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"-l(\d+)s(\d+)", ("model.seq_len", "model.num_blocks")),
    (r"-width(\d+)", ("model.hidden_channels",)),
    (r"-depth(\d+)", ("model.num_layers",)),
)
ENCODINGS: dict[str, dict[str, object]] = {
    "rwse": {"data.rwse": 20},
    "lappe": {"data.lap_pe": 10},
    "deg": {"data.local_degrees": True},
}
GRAMA = "grama-"
NAIVE = "-naive"
AGAIN = "-reevaluated"  # the numbers of another evaluation of the same model
# Backbones with options that have a row of their own.
VARIANTS: dict[str, dict[str, object]] = {
    "gcn-root": {"model.backbone": "gcn", "model.backbone_options": {"root": True}},
    "gin-multi": {
        "model.backbone": "gin",
        "model.backbone_options": {"aggregation": "multi", "norm": None},
    },
    "gps-performer": {
        "model.backbone": "gps",
        "model.backbone_options": {"attention": "performer"},
    },
}


@dataclass(frozen=True)
class PlannedRun:
    r"""One run of an experiment."""

    data: str  # the label of its column
    model: str  # the name of its row
    fold: int  # the fold
    seed: int  # the seed
    folder: Path  # where it lies
    settings: Mapping[str, object]  # all that is set, under dotted names

    @property
    def is_finished(self) -> bool:
        return RunFolder(self.folder).is_finished

    @property
    def failure(self) -> Path:
        r"""The file that says why its last attempt failed; there is none before one did."""
        return self.folder.with_name(f"{self.folder.name}.{FAILURE}")

    @property
    def diverged(self) -> bool:
        r"""Whether its loss ceased to be finite: its settings are to blame, not the machine."""
        if not self.failure.is_file():
            return False
        error: str = json.loads(self.failure.read_text())["error"]
        return error.startswith(NonFiniteLossError.__name__)

    @property
    def name(self) -> str:
        return f"{self.data} {self.model} fold {self.fold} seed {self.seed}"


def plan_runs(
    suite: Suite,
    budget: str,
    root: Path,
    models: Sequence[str] = (),
    data: Sequence[str] = (),
    repeats: Sequence[int] = (),
    absent: Collection[str] = (),
    num_folds: Mapping[str, int] | None = None,
) -> list[PlannedRun]:
    r"""Lists the runs of an experiment, but for columns whose data is absent.

    A row takes its settings from ``<data>-<model>.yaml`` in the folder of the suite; one without
    such a file from the defaults of the suite, what the data and the suite's ``rows`` set, and its
    own name. The budget replaces what it names, but for the sizes of a model that has a file.
    Settings that a sweep chose for the row, ``best.yaml`` beside its runs, win over all of these. A
    column with fewer folds than repeats takes other seeds for the rest.
    """
    suite.check_budget(budget)
    limits = suite.budgets[budget]
    columns = suite.columns(data, budget)
    indices = list(repeats) or list(range(limits.runs))
    runs = []
    for column in columns:
        if column.label in absent:
            continue
        for row in suite.rows_of(column, budget, models):
            settings = resolve_row(suite, column, row, limits.changes)
            place = root / suite.name / budget / column.label / row
            if (place / BEST).is_file():
                settings = dict(read_file(place / BEST))
            for fold, seed in repeats_of(suite, indices, (num_folds or {}).get(column.label)):
                folder = place / f"fold{fold}-seed{seed}"
                own = {**settings, "data.fold": fold, "seed": seed}
                runs.append(PlannedRun(column.label, row, fold, seed, folder, own))
    return runs


def repeats_of(
    suite: Suite, indices: Sequence[int], num_folds: int | None = None
) -> list[tuple[int, int]]:
    r"""Returns the fold and seed of each repeat: folds come first, and further repeats than there
    are folds take other seeds.
    """
    if suite.repeat == "seed":
        return [(0, index) for index in indices]
    if num_folds is None:
        return [(index, 0) for index in indices]
    return [(index % num_folds, index // num_folds) for index in indices]


def config_of(suite: Suite, column: SuiteData, row: str) -> Path:
    r"""Returns where the configuration of a row lies, if it has one of its own."""
    return suite.folder / f"{column.label}-{row}.yaml"


def resolve_row(
    suite: Suite, column: SuiteData, row: str, changes: Mapping[str, object]
) -> dict[str, object]:
    r"""Puts together the settings of a row of a suite, of which a budget changes some."""
    path = config_of(suite, column, row)
    if path.is_file():
        settings = dict(read_file(path))
        settings |= {k: v for k, v in changes.items() if not k.startswith(MODEL)}
    else:
        named = settings_of_row(row, MODELS)
        own = {**suite.rows.get(row, {}), **suite.rows.get(f"{column.label}/{row}", {})}
        settings = {**suite.defaults, **column.changes, **own, **changes, **named}
    settings["data.name"] = column.name
    settings |= {f"data.options.{key}": value for key, value in column.options.items()}
    return settings


def run_planned(run: PlannedRun, report: ReportName = "quiet") -> Result:
    r"""Does one run: from the start, from its last checkpoint, or not at all if it is finished.

    A run that fails leaves a file ``failure.json`` that says why; the next attempt starts anew. One
    that was asked to stop leaves none.
    """
    folder = RunFolder(run.folder)
    try:
        config = make_config(run.settings)
        result = run_experiment(config, run.folder, resume=folder.is_run, report=report)
    except RunInterrupted:
        raise
    except Exception as error:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        words = json.dumps({"error": f"{type(error).__name__}: {error}"})
        write_atomically(run.failure, f"{words}\n".encode())
        raise
    run.failure.unlink(missing_ok=True)
    return result


@dataclass(frozen=True)
class ColumnFacts:
    r"""What is known of a column once its data was looked at."""

    absent: str = ""  # why its data cannot be used, in a few words, or empty
    reason: str = ""  # the same in full, where data was to be fetched and could not be
    num_folds: int = 0  # the number of folds
    # the test scores of its trivial predictors by name
    references: Mapping[str, float] = field(default_factory=dict)


def look_at_column(suite: Suite, entry: SuiteData, may_fetch: bool) -> ColumnFacts:
    r"""Loads the data of a column once and takes from it what runs and tables need. Data of which
    files are missing counts as absent unless they may be fetched.
    """
    if not suite.budgets and not entry.suite:
        return ColumnFacts()  # measured on graphs made for it
    if not may_fetch:
        sources = find(entry.name).sources
        if sources and not Storage().find_source(sources):
            return ColumnFacts(ABSENT)
    if entry.suite:
        return ColumnFacts()
    try:
        data = load_with(entry.name, Storage(), entry.options)
    except DatasetError as error:
        return ColumnFacts(ABSENT, str(error))
    # a table of pairs has no row for them
    return ColumnFacts("", "", len(data.folds), {} if entry.pairs else trivial_references(data))


def gather_references(facts: Mapping[str, ColumnFacts]) -> dict[str, dict[str, float]]:
    r"""Turns the facts of columns, by label, into the scores of each trivial predictor by label."""
    scores: dict[str, dict[str, float]] = {}
    for label, known in facts.items():
        for name, score in known.references.items():
            scores.setdefault(name, {})[label] = score
    return scores


def settings_of_row(row: str, words: Collection[str]) -> dict[str, object]:
    r"""Turns the name of a row into settings.

    A row is a word of the catalogue, or ``grama-<backbone>`` (a name, or one of :data:`VARIANTS`)
    with ``-naive`` for coefficients that are free parameters. Sizes may follow, as in
    ``grama-gcn-l16s4``, ``gcn-width64`` and ``gcn-depth8``, and encodings after a plus, as in
    ``gps+rwse``.

    Example:
        >>> settings_of_row("grama-gcn+rwse", {"grama"})
        {'model.name': 'grama', 'model.backbone': 'gcn', 'data.rwse': 20}
    """
    word, *encodings = row.removesuffix(AGAIN).split("+")
    settings: dict[str, object] = {}
    sizes: dict[str, object] = {}
    if word not in words:
        for pattern, names in SIZES:
            if found := re.search(f"{pattern}$", word):
                word = word.removesuffix(found.group())
                sizes |= {name: int(n) for name, n in zip(names, found.groups(), strict=True)}
    if word in words:
        settings = {"model.name": word}
    elif word.startswith(GRAMA):
        backbone = word.removeprefix(GRAMA).removesuffix(NAIVE)
        plain: dict[str, dict[str, object]] = {name: {"model.backbone": name} for name in BACKBONES}
        settings = {
            "model.name": "grama",
            **choose(f"backbone of {row}", backbone, {**plain, **VARIANTS}),
        }
        if word.endswith(NAIVE):
            settings["model.coefficients"] = "naive"
    else:
        raise ValueError(
            f"Expected a model that `grama models` lists, such as {name_nearest(word, words, 3)}, "
            f"or 'grama-' and a backbone (got {row!r})"
        )
    settings |= sizes
    for encoding in encodings:
        if encoding not in ENCODINGS:
            raise ValueError(
                f"Expected the encoding of {row!r} to be one of {', '.join(ENCODINGS)} "
                f"(got {encoding!r})"
            )
        settings |= ENCODINGS[encoding]
    return settings


Outcome = tuple[PlannedRun, Result | Exception]


def run_one_by_one(runs: Sequence[PlannedRun], report: ReportName) -> Iterator[Outcome]:
    r"""Does the runs in this process, in their order; yields each with its result, or with what it
    failed of. If one was asked to stop, the others are not begun.
    """
    for run in runs:
        try:
            outcome: Result | Exception = run_planned(run, report)
        except RunInterrupted:
            raise
        except Exception as error:
            outcome = error
        yield run, outcome


def run_in_processes(runs: Sequence[PlannedRun], jobs: int) -> Iterator[Outcome]:
    r"""Does the runs in several processes, as they become free; yields each with its result, or
    with what it failed of.

    A process that dies, such as one without memory, takes its own run with it and no other: those
    that were under way beside it are begun again, one at a time. If a run is asked to stop, or this
    process is, the others save their state and stop, and none is begun.
    """
    waiting = list(runs)
    together = True
    while waiting:
        batch = waiting if together else waiting[:1]
        died = False
        with ProcessPoolExecutor(min(jobs, len(batch)), prepare_workers(), _prepare_worker) as pool:
            futures = {pool.submit(_run_unless_stopped, run): run for run in batch}
            try:
                for future in as_completed(futures):
                    run = futures[future]
                    try:
                        outcome: Result | Exception = future.result()
                    except BrokenProcessPool as error:
                        died = True
                        if together:
                            continue
                        outcome = error
                    except RunInterrupted:
                        raise
                    except Exception as error:
                        outcome = error
                    waiting.remove(run)
                    yield run, outcome
            except BaseException:
                # leaving the pool waits for all that it was given
                pool.shutdown(wait=False, cancel_futures=True)
                for process in active_children():
                    process.terminate()
                raise
        # after a death, each of the runs that were left is tried alone once
        together = not died if together else True


_interruptions: list[RunInterrupted] = []


def _run_unless_stopped(run: PlannedRun) -> Result:
    """In a process of a pool: one that was asked to stop begins nothing that it still holds."""
    if _interruptions:
        raise RunInterrupted(run.folder, _interruptions[0].exit_code)
    try:
        return run_planned(run)
    except RunInterrupted as error:
        _interruptions.append(error)
        raise


def _prepare_worker() -> None:
    import torch

    torch.set_num_threads(1)
    # a terminal sends Ctrl-C to all; the process that started this one stops it, once
    signal.signal(signal.SIGINT, signal.SIG_IGN)
