"""The model that is taken when none is named: the winner of a short race on validation data."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from torch_grama.datasets import GraphTaskData
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.data_facts import DataFacts, mean_nodes
from torch_grama.experiments.run import RunInterrupted, run_experiment
from torch_grama.experiments.settings import resolve_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import read_object, seal_data
from torch_grama.runs.words import format_count, format_metric, format_seconds
from torch_grama.training import NonFiniteLossError
from torch_grama.training.checkpoint_file import hash_data

MODELS = ("gcn", "tuned-gcn", "grama-gcn", "grama-gatedgcn", "grama-gps")
"""The models that race, the quickest first."""

# Attention to all pairs of nodes takes too much memory beyond.
_MOST_ATTENDED = 4000
# Columns, and the share of zeros in them, from which features count as wide and sparse.
_WIDE, _SPARSE = 200, 0.8
# Shares of the time: each of the two heats, and the training of the winner.
_HEAT, _TRAINING = 0.2, 0.5
# Epochs of a first heat: at most, and so many that they tell anything.
_FIRST, _TELLING = 100, 15
# Epochs that a model must manage in the time of the training to take part.
_LEAST = 60
_PATIENCE = 50
_FINALISTS, _MOST_SEEDS, _BEST_VALUES = 4, 3, 5


@dataclass(frozen=True)
class Entrant:
    r"""One model with one way to regularise it: the settings that make it, as pairs."""

    model: str
    changes: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        words = [
            f"{name.rpartition('.')[2].replace('_', ' ')} {value}"
            for name, value in self.changes
            if name != "optimizer.name"
        ]
        return f"{self.model} ({', '.join(words) or 'usual settings'})"


@dataclass(frozen=True)
class RaceOutcome:
    r"""What came of a race."""

    settings: Mapping[str, object]  #: those of the user and those of the winner
    lines: Sequence[str]  #: what ran, what won and by how much


def run_race(
    settings: Mapping[str, object],
    data: GraphTaskData,
    folder: str | Path,
    budget: float,
    *,
    folds: str | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> RaceOutcome:
    r"""Lets a handful of models race by successive halving, or goes on with a race.

    Two epochs tell how fast each model is; one that could not be trained in the time is left out.
    In the first heat all run, each with a few ways to regularise it; in the second the best of
    them, for longer and, where time allows, from several seeds. Where time is left besides the
    training of the winner, the best are trained to their end and compared once more. The budget, in
    seconds, is for all of this, roughly; settings of the user are not changed. A heat is an
    ordinary run below ``race/``: a race that was stopped goes on with the times that it measured,
    and ends as it would have ended. Then ``race.json`` holds what came of it.
    """
    run = RunFolder(folder)
    run.path.mkdir(parents=True, exist_ok=True)
    with run.lock():
        seal_data(run.path, hash_data(data, int(str(settings.get("data.fold", 0)))))
        done = read_object(run.race) or {}
        if "winner" not in done:
            begun: dict[str, Any] = {"settings": dict(settings), "budget": budget, "folds": folds}
            done = begun | _Race(begun, data, run.path, report).decide()
            _write(run.race, done)
        shutil.rmtree(run.path / "race", ignore_errors=True)
    return RaceOutcome({**done["winner"], **settings}, done["lines"])


def is_racing(folder: str | Path) -> bool:
    r"""Whether a folder holds a race whose winner has not been trained yet."""
    run = RunFolder(folder)
    return not run.is_run and (run.race.is_file() or _plan(run.path).is_file())


def read_race(folder: str | Path) -> dict[str, Any]:
    r"""Reads what a race was started with: ``settings``, ``budget`` and ``folds``."""
    run = RunFolder(folder)
    content = read_object(run.race) or read_object(_plan(run.path)) or {}
    if not {"settings", "budget", "folds"} <= set(content):
        raise RunError(f"'{run.race}' cannot be read: start the run again")
    return content


def ways_to_regularise(data: GraphTaskData) -> list[dict[str, object]]:
    r"""Returns a few sets of settings against overfitting that suit a data set, the usual first."""
    if data.kind == "forecast":
        return [{}, {"model.dropout": 0.2, "optimizer.weight_decay": 1e-3}]
    if data.level == "graph" or len(data.graphs) > 1:
        return [{}, {"optimizer.lr": 3e-3}, {"model.dropout": 0.3, "optimizer.weight_decay": 1e-2}]
    strong: dict[str, object] = {
        "optimizer.name": "adam",  # its decay acts as an L2 penalty
        "optimizer.lr": 1e-2,
        "optimizer.weight_decay": 5e-4,
        "model.dropout": 0.5,
    }
    x = data.graphs[0].x
    is_wide = x is not None and x.is_floating_point() and x.size(-1) >= _WIDE
    if is_wide and x is not None and 1 - x.count_nonzero() / x.numel() >= _SPARSE:
        return [{}, strong, {**strong, "data.standardize": "rows"}]
    # without dropout short heats would be won by what overfits later
    return [{}, strong, {"optimizer.lr": 1e-2}]


@dataclass
class _Race:
    """Heats below ``race/`` of a folder, and what is known of them."""

    begun: dict[str, Any]
    data: GraphTaskData
    folder: Path
    report: Callable[[str], None]

    def __post_init__(self) -> None:
        self.settings: dict[str, object] = self.begun["settings"]
        self.budget = float(self.begun["budget"])
        self.metric, self.facts = self.data.metric, DataFacts.of(self.data)
        self.heats: list[dict[str, object]] = []
        self.failure = ""

    def decide(self) -> dict[str, Any]:
        start = time.monotonic()
        speeds, slow = self._measure()
        heat = _HEAT * self.budget
        groups = self._entrants(list(speeds))
        first = [entrant for group in groups for entrant in group]
        epochs = int(heat / sum(speeds[one.model] for one in first))
        later: list[Entrant] = []
        if epochs < _TELLING:  # the models now, other ways of the best of them later
            first, later = groups[0], [one for group in groups[1:] for one in group]
            epochs = int(heat / sum(speeds.values()))
        epochs = max(1, min(epochs, _FIRST))
        counts = f"{format_count(len(first), 'setting')} of {format_count(len(speeds), 'model')}"
        self.report(f"race, first heat: {counts}")
        ranked = self._rank({one: self._score(one, epochs) for one in first})
        if not ranked:
            raise self._nothing_left(speeds)
        finalists = ranked[: max(2, min(_FINALISTS, len(ranked) // 3))]
        finalists += [one for one in later if one.model in {best.model for best in ranked[:2]}]
        lengths = {one: self._length(one, speeds[one.model]) for one in finalists}
        share = heat / sum(speeds[one.model] * length for one, length in lengths.items())
        seeds = range(max(1, min(_MOST_SEEDS, int(share))))
        self.report(f"race, second heat: {', '.join(map(str, finalists))}")
        scores = {
            one: statistics.fmean(
                self._score(one, max(epochs, int(min(share, 1.0) * length)), seed) for seed in seeds
            )
            for one, length in lengths.items()
        }
        winner, *others = ranked = self._rank(scores) or finalists
        # what the training of the winner leaves of the time: the best are trained to their end
        times = {one: speeds[one.model] * length for one, length in lengths.items()}
        spare = (1 - 2 * _HEAT) * self.budget - times[winner]
        final: list[Entrant] = []
        for one in ranked:
            if times[one] <= spare:
                final.append(one)
                spare -= times[one]
        if share < 1 and winner in final and len(final) > 1:
            self.report(f"race, final: {', '.join(map(str, final))}")
            scores = {one: self._score(one, lengths[one]) for one in final}
            winner, *others = self._rank(scores) or final
        length = lengths[winner]
        took = format_seconds(time.monotonic() - start)
        behind = [f"{one} by {format_metric(abs(scores[one] - scores[winner]))}" for one in others]
        lines = [
            f"race: {format_count(len(first) + len(later), 'setting')} of {', '.join(speeds)}, "
            f"judged by validation {self.metric.name} ({took})"
            + (f"; too slow for the time: {', '.join(slow)}" if slow else ""),
            f"won: {winner}, {format_metric(scores[winner])}; its training takes up to "
            f"{format_count(length, 'epoch')}, about "
            f"{format_seconds(speeds[winner.model] * length)}",
            f"behind: {', '.join(behind[:3]) or f'none of the second heat ({self.failure})'}",
        ]
        return {
            "winner": {"model.name": winner.model, **dict(winner.changes)}
            | self._limits(winner, length),
            "lines": lines,
            "speeds": speeds,
            "heats": self.heats,
        }

    def _measure(self) -> tuple[dict[str, float], list[str]]:
        """Seconds per epoch of each model, and those that are too slow. Written down, since a race
        that goes on must be the same race.
        """
        plan = self.begun | (read_object(_plan(self.folder)) or {})
        if "speeds" in plan:
            return plan["speeds"], plan["slow"]
        _write(_plan(self.folder), plan)
        large = mean_nodes(self.data) > _MOST_ATTENDED
        models = [
            "grama-gps-performer" if large and name == "grama-gps" else name for name in MODELS
        ]
        speeds: dict[str, float] = {}
        slow: list[str] = []
        for name in models:
            self.report(f"race: how fast is {name}?")
            rows = self._heat(Entrant(name), min(2, self._most(Entrant(name))))
            if not rows:
                continue
            ends = [0.0, *(float(row["seconds"]) for row in rows)]
            seconds = max(1e-4, min(end - begin for begin, end in pairwise(ends)))
            quickest = min(speeds.values(), default=seconds)
            if seconds > max(_TRAINING * self.budget / _LEAST, 2 * quickest):
                slow = models[models.index(name) :]  # those that follow are slower still
                break
            speeds[name] = seconds
        if not speeds:
            raise self._nothing_left(models)
        _write(_plan(self.folder), {**plan, "speeds": speeds, "slow": slow})
        return speeds, slow

    def _nothing_left(self, models: Iterable[str]) -> ConfigError:
        return ConfigError(
            f"None of the models {', '.join(models)} can be trained ({self.failure}); name one "
            f"with `--model`"
        )

    def _entrants(self, models: Iterable[str]) -> list[list[Entrant]]:
        """The models with each way; what the user has set is no part of a way."""
        ways: list[tuple[tuple[str, object], ...]] = []
        for way in ways_to_regularise(self.data):
            free = tuple((name, value) for name, value in way.items() if name not in self.settings)
            if free not in ways:
                ways.append(free)
        return [[Entrant(model, way) for model in models] for way in ways]

    def _score(self, entrant: Entrant, epochs: int, seed: int = 0) -> float:
        """Mean of the best validation values, since a single one is luck; NaN if it failed."""
        rows = self._heat(entrant, min(epochs, self._most(entrant)), seed)
        values = sorted(float(v) for row in rows if (v := row[f"val/{self.metric.name}"]))
        best = values[-_BEST_VALUES:] if self.metric.higher_is_better else values[:_BEST_VALUES]
        value = statistics.fmean(best) if best else math.nan
        self.heats.append(
            {"entrant": str(entrant), "epochs": len(rows), "seed": seed, "val": value}
        )
        found = "failed" if math.isnan(value) else format_metric(value)
        self.report(f"  {entrant}: {found} after {format_count(len(rows), 'epoch')}")
        return value

    def _heat(self, entrant: Entrant, epochs: int, seed: int = 0) -> list[dict[str, str]]:
        """Runs it, unless it has run; the rows of its epochs, none if it failed."""
        name = "-".join([entrant.model, *(f"{value}" for _, value in entrant.changes)])
        path = self.folder / "race" / f"{name}-{epochs}-{seed}"
        try:
            config = self._config(entrant, epochs)
            run_experiment(
                replace(config, seed=config.seed + seed),
                path,
                resume=RunFolder(path).is_run,
                test=False,
                report="json",
                data=self.data,
                log_coefficients=False,
            )
        except RunInterrupted as error:
            raise RunInterrupted(self.folder, error.exit_code) from None
        except (ConfigError, NonFiniteLossError, RunError, torch.OutOfMemoryError) as error:
            self.failure = str(error)
            return []
        return read_metrics(RunFolder(path).metrics)

    def _config(self, entrant: Entrant, epochs: int | None = None) -> RunConfig:
        settings = {"model.name": entrant.model, **dict(entrant.changes)}
        limits = {} if epochs is None else self._limits(entrant, epochs)
        return resolve_config({**settings, **self.settings, **limits}, self.facts)

    def _limits(self, entrant: Entrant, epochs: int) -> dict[str, object]:
        trainer = self._config(entrant).trainer
        limits: dict[str, object] = {"trainer.max_epochs": epochs}
        if "trainer.patience" not in self.settings:
            # a short heat that stands still for a while is not lost
            limits["trainer.patience"] = max(epochs // 3, _PATIENCE, trainer.check_val_every)
        for name in ("min_epochs", "check_val_every"):
            if getattr(trainer, name) > epochs:
                limits[f"trainer.{name}"] = epochs
        return limits

    def _most(self, entrant: Entrant) -> int:
        return self._config(entrant).trainer.max_epochs

    def _length(self, entrant: Entrant, speed: float) -> int:
        """Epochs of the training of a winner: what the time allows, not too few."""
        most = self._most(entrant)
        if "trainer.max_epochs" in self.settings:
            return most
        return min(most, max(_LEAST, int(_TRAINING * self.budget / speed)))

    def _rank(self, scores: Mapping[Entrant, float]) -> list[Entrant]:
        sign = -1.0 if self.metric.higher_is_better else 1.0
        valid = [one for one, score in scores.items() if not math.isnan(score)]
        return sorted(valid, key=lambda one: sign * scores[one])


def _plan(folder: Path) -> Path:
    return folder / "race" / "plan.json"


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode())
