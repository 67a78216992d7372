"""One trial of a sweep: its name, its folder, and what is known of it."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.record import Record
from torch_grama.runs.result import Result, deviation
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import read_plain

TrialState = Literal["finished", "stopped", "failed", "unfinished"]
TRIAL = "trial.json"
STOPPED = "stopped.json"
FAILURE = "failure.json"
_LONGEST = 80
_LARGEST = 1_000_000
_FAILURE_PARTS = ("kind", "message", "run", "traceback")


def name_trial(point: Mapping[str, object]) -> str:
    r"""Names a trial after its settings: a readable part and a hash, always the same.

    Example:
        >>> name_trial({"optimizer.lr": 0.01, "model.seq_len": 4})
        'lr=0.01,seq_len=4-5c740dea'
    """
    last = [name.rpartition(".")[2] for name in point]
    words = []
    for short, (name, value) in zip(last, point.items(), strict=True):
        label = short if last.count(short) == 1 else name
        words.append(f"{label}={_word(value)}")
    readable = re.sub(r"[^\w.=,+-]+", "_", ",".join(words))[:_LONGEST].strip("-,_.")
    key = json.dumps(dict(point), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest


@dataclass(frozen=True)
class Failure:
    r"""Why a trial failed."""

    kind: str  # the kind of error, such as "out of memory"
    message: str  # what it said
    run: str = ""  # the run of the trial that failed
    traceback: str = ""  # where it happened

    def __str__(self) -> str:
        line = self.message.strip().partition("\n")[0]
        return f"{self.kind}: {line}" if line else self.kind


@dataclass(frozen=True)
class TrialOutcome:
    r"""What is known of a trial.

    Attributes:
        name: Its name.
        point: Its settings among those of the space.
        state: ``"finished"``, ``"stopped"`` (early, by the scheduler), ``"failed"`` or
            ``"unfinished"``.
        results: Its finished runs, by their names.
        value: Mean of the validation metric over its runs; of a stopped trial, what it had
            reached. NaN if there is none.
        epochs: Epochs that were run.
        failure: Why it failed.
    """

    name: str
    point: Mapping[str, object]
    state: TrialState
    results: Mapping[str, Result]
    value: float
    epochs: int
    failure: Failure | None = None

    @property
    def deviation(self) -> float | None:
        r"""Sample deviation over the runs; :obj:`None` for less than two."""
        return deviation([result.val for result in self.results.values()])

    @property
    def seconds(self) -> float:
        r"""Time spent in finished runs."""
        return sum(result.seconds for result in self.results.values())

    @property
    def is_settled(self) -> bool:
        r"""Whether there is nothing left to run."""
        return self.state != "unfinished"

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return {
            "name": self.name,
            "state": self.state,
            "settings": dict(self.point),
            "val": None if math.isnan(self.value) else self.value,
            "val_deviation": self.deviation,
            "runs": len(self.results),
            "epochs": self.epochs,
            "parameters": next((run.parameters for run in self.results.values()), None),
            "seconds": self.seconds,
            "message": "" if self.failure is None else str(self.failure),
        }


class TrialFolder:
    r"""The folder of one trial: ``trial.json`` with its settings, one folder a run, and
    ``stopped.json`` or ``failure.json`` if it did not come to its end.
    """

    def __init__(self, path: str | Path, runs: Sequence[str]) -> None:
        self.path = Path(path)
        self.runs = {name: RunFolder(self.path / name) for name in runs}

    def begin(self, point: Mapping[str, object]) -> None:
        r"""Makes the folder and notes the settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(TRIAL, {"settings": dict(point)})

    def record_failure(self, failure: Failure) -> None:
        r"""Notes that the trial failed."""
        self._write(FAILURE, vars(failure))

    def record_stop(self, value: float, epochs: int) -> None:
        r"""Notes that the scheduler stopped the trial, and what it had reached."""
        self._write(STOPPED, {"value": None if math.isnan(value) else value, "epochs": epochs})

    def forget_failure(self) -> None:
        r"""Lets a failed trial run again."""
        (self.path / FAILURE).unlink(missing_ok=True)

    def read(self) -> TrialOutcome | None:
        r"""Reads what is known; :obj:`None` if no trial was begun here."""
        begun = self._read(TRIAL)
        if begun is None or not isinstance(begun.get("settings"), dict):
            return None
        point = begun["settings"]
        assert isinstance(point, dict)
        results = {name: found for name, run in self.runs.items() if (found := load_result(run))}
        value = statistics.fmean(r.val for r in results.values()) if results else math.nan
        epochs = sum(result.epochs for result in results.values())
        state: TrialState = "finished" if len(results) == len(self.runs) else "unfinished"
        failed, stopped = self._read(FAILURE), self._read(STOPPED)
        failure = None
        if failed is not None:
            state, value = "failed", math.nan
            failure = Failure(**{name: str(failed.get(name, "")) for name in _FAILURE_PARTS})
        elif stopped is not None and state == "unfinished":
            state, reached = "stopped", Record(stopped)
            number, epochs = reached.number("value"), int(reached.number("epochs") or 0)
            value = math.nan if number is None else number
        return TrialOutcome(self.path.name, point, state, results, value, epochs, failure)

    def history(self, metric: str, higher_is_better: bool, span: int) -> list[tuple[int, float]]:
        r"""Returns what the trial had reached after each of its epochs, over all its runs: the
        steps of the second run begin at :obj:`span`.
        """
        best_of = max if higher_is_better else min
        steps: list[tuple[int, float]] = []
        finished: list[float] = []
        for number, run in enumerate(self.runs.values()):
            best = math.nan
            for epoch, value in _values(run.metrics, f"val/{metric}"):
                best = value if math.isnan(best) else best_of(best, value)
                steps.append((number * span + epoch, statistics.fmean([*finished, best])))
            if math.isnan(best):
                break
            finished.append(best)
        return steps

    def _write(self, name: str, content: object) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        place = self.path / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)  # nothing of ours: a file is to be there
        write_atomically(place, f"{text}\n".encode())

    def _read(self, name: str) -> dict[str, object] | None:
        try:
            content = json.loads(read_plain(self.path / name, _LARGEST))
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None


def list_trials(folder: Path, runs: Sequence[str]) -> list[TrialOutcome]:
    r"""Reads every trial, with runs of these names, that was begun in a folder; by name."""
    if not folder.is_dir():
        return []
    found = (TrialFolder(path, runs).read() for path in sorted(folder.iterdir()) if path.is_dir())
    return [outcome for outcome in found if outcome is not None]


def load_result(run: RunFolder) -> Result | None:
    r"""Returns the result of a run; nothing if there is none, or it is damaged."""
    if not run.is_finished:
        return None
    try:
        return Result.load(run.result)
    except RunError:
        return None  # the trial is run again


def _values(path: Path, column: str) -> list[tuple[int, float]]:
    """Epoch and value of every row that has one."""
    try:
        rows = read_metrics(path)
        found = [(int(row["epoch"]), float(row[column])) for row in rows if row.get(column)]
    except (ValueError, KeyError):
        return []
    return [(epoch, value) for epoch, value in found if not math.isnan(value)]


def _word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return "x".join(_word(item) for item in value)
    return str(value)
