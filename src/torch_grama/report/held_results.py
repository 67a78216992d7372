"""The numbers of tables: ours, from result files, the paper's, and how a metric is printed."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from torch_grama.runs.result import Result, deviation
from torch_grama.runs.run_files import flatten
from torch_grama.runs.run_folder import CONFIG, RESULT, RunError
from torch_grama.runs.safe_files import read_mapping
from torch_grama.runs.words import name_budget

CHANGED = {"grama": "0.2.0"}
"""How the words of a model begin, and the version in which its numbers changed last."""
OLD_MARK = "†"
_FAILURE = ".failure.json"
_NUMBERS = ("val", "test", "seed", "fold", "best_epoch", "epochs", "parameters", "seconds")
_DECISIVE = (
    *("data.", "task.", "model.", "optimizer.", "schedule."),
    *("trainer.max_epochs", "trainer.batch_size"),
)
# The width of the paper's runtime table, what the benchmark calls a model, and the paper's row.
_WIDTH = 256
_ROWS = {
    "PyG GCN, cached": "gcn",
    "PyG GPS": "gps",
    "GRAMA(GCN), naive": "grama-gcn-naive",
    "GRAMA(GCN)": "grama-gcn",
    "GRAMA(GatedGCN)": "grama-gatedgcn",
    "GRAMA(GPS)": "grama-gps",
}
_FOLDER = files(__package__) / "paper"


@dataclass(frozen=True)
class RunResult:
    r"""What one finished run measured."""

    val: float  #: the metric on the validation split, at the selected epoch, as stored
    test: float | None  #: the metric on the test split, read once after selection, or :obj:`None`
    seed: int = 0  #: the seed
    fold: int = 0  #: the fold
    best_epoch: int = 0  #: the selected epoch
    parameters: int = 0  #: number of trainable parameters
    seconds: float = 0.0  #: how long it took
    hardware: str = ""  #: the device it ran on
    path: Path = Path()  #: the file it was read from
    version: str = ""  #: the version of this package that made it, or empty
    epochs: int = 0  #: the number of epochs


@dataclass(frozen=True)
class HeldNumber:
    r"""All runs of one model on one data set within one suite and budget."""

    suite: str  #: the experiment, such as ``hetero``
    budget: str  #: ``smoke``, ``short`` or ``full``
    data: str  #: the data set
    model: str  #: the row, such as ``grama-gatedgcn``
    metric: str  #: the metric
    runs: tuple[RunResult, ...]  #: its runs, by fold and seed

    @property
    def scale(self) -> MetricScale:
        return scale_of(self.metric)

    @property
    def tests(self) -> list[float]:
        return [self.scale.factor * run.test for run in self.runs if run.test is not None]

    @property
    def mean(self) -> float | None:
        r"""The mean over runs in the unit of the tables, or :obj:`None` without a test value."""
        return statistics.fmean(self.tests) if self.tests else None

    @property
    def deviation(self) -> float | None:
        return deviation(self.tests)

    @property
    def validation(self) -> float:
        return self.scale.factor * statistics.fmean(run.val for run in self.runs)

    @property
    def old_version(self) -> str:
        r"""The oldest version that made one of its runs, if the model has changed since; or
        empty.
        """
        versions = [run.version for run in self.runs if is_old(self.model, run.version)]
        return min(versions, key=_numbers, default="")

    @property
    def text(self) -> str:
        r"""Mean and deviation as printed, with a mark if it is old; empty without a test value."""
        if self.mean is None:
            return ""
        text = self.scale.text_with_deviation(self.mean, self.deviation)
        return f"{text} {OLD_MARK}" if self.old_version else text


def is_old(model: str, version: str) -> bool:
    r"""Whether a number was made before its model changed; never if the version is not known."""
    return bool(version) and any(
        model.startswith(word) and _numbers(version) < _numbers(changed)
        for word, changed in CHANGED.items()
    )


def explain_old(numbers: Iterable[HeldNumber]) -> str:
    r"""One line on what the mark of old numbers means, or empty where there are none."""
    versions = sorted({n.old_version for n in numbers if n.old_version}, key=_numbers)
    if not versions:
        return ""
    return (
        f"{OLD_MARK} made by version {', '.join(versions)}; the model has changed since, and a new "
        f"run may differ."
    )


def read_run(path: Path) -> tuple[Result, RunResult]:
    result = Result.load(path)
    for name in ("val", "test", "seconds"):
        value = getattr(result, name)
        if value is not None and not math.isfinite(value):
            raise RunError(f"{path}: expected '{name}' to be a number (got {value!r})")
    hardware: object = result.hardware
    if isinstance(hardware, Mapping):
        hardware = hardware.get("accelerator", hardware.get("processor", ""))
    return result, RunResult(
        **{name: getattr(result, name) for name in _NUMBERS},
        hardware=str(hardware),
        path=path,
        version=str(result.versions.get("torch_grama", "")),
    )


def gather(folders: Iterable[Path]) -> tuple[list[HeldNumber], list[str]]:
    r"""Gathers result files that lie as ``<suite>/<budget>/<data>/<model>/<run>/result.json``, or,
    to be kept, as ``<suite>/<budget>/<data>/<model>/<run>.json``.

    A run found in several folders is counted once: the first folder wins. Runs of a later folder
    join those of an earlier one if both were made with the same settings by the same model.
    """
    groups: dict[tuple[str, str, str, str, str], dict[tuple[int, int], RunResult]] = {}
    faults: list[str] = []
    for folder in folders:
        for path in sorted((*folder.glob("*/*/*/*/*.json"), *folder.glob("*/*/*/*/*/*.json"))):
            suite, budget, data, model, *inner = path.relative_to(folder).parts
            if (len(inner) == 2 and inner[1] != RESULT) or path.name.endswith(_FAILURE):
                continue
            try:
                result, run = read_run(path)
            except RunError as error:
                faults.append(str(error))
                continue
            key = (suite, name_budget(budget), data, model, result.metric)
            cell = groups.setdefault(key, {})
            first, index = next(iter(cell.values()), run), (run.fold, run.seed)
            is_here = first.path.is_relative_to(folder)
            if index not in cell and (is_here or _are_alike(model, first, run)):
                cell[index] = run
    numbers = [
        HeldNumber(*key, runs=tuple(runs[index] for index in sorted(runs)))
        for key, runs in sorted(groups.items())
    ]
    return numbers, faults


def _are_alike(model: str, *runs: RunResult) -> bool:
    """Whether runs may stand in one mean, as far as their files tell."""
    one, other = (_read_settings(run.path.parent) for run in runs)
    is_same = all(other.get(name, value) == value for name, value in one.items())
    return is_same and len({is_old(model, run.version) for run in runs}) == 1


def _read_settings(folder: Path) -> dict[str, str]:
    """What decides a score, but for seed and fold; empty where no settings are kept."""
    try:
        settings = flatten(read_mapping(folder, CONFIG))
    except (FileNotFoundError, RunError):
        return {}
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_DECISIVE) and name not in ("data.fold", "data.root")
    }


def read_runtime(path: Path) -> list[HeldNumber]:
    r"""Reads milliseconds of a training step and of inference: the depth scene of a file that
    ``python -m benchmarks.runtime`` wrote, as far as it was measured at the width of the paper.
    """
    numbers = []
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        hardware, version = str(record["hardware"]), str(record.get("torch_grama", ""))
        for row in record["rows"]:
            if row["scene"] != "depth" or row["model"] not in _ROWS or row["width"] != _WIDTH:
                continue
            model = f"{_ROWS[row['model']]}-depth{row['depth']}"
            for data, key in (("training", "train_ms"), ("inference", "infer_ms")):
                time = float(row[key])
                run = RunResult(
                    time, time, seconds=time / 1000, hardware=hardware, path=path, version=version
                )
                numbers.append(HeldNumber("runtime", hardware, data, model, f"{data}_ms", (run,)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: not a file of measured times ({error!r})") from error
    return numbers


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


@dataclass(frozen=True)
class PaperNumber:
    r"""One cell of one table of the paper."""

    table: str  #: its title and its label in the paper's source
    row: str  #: the row as printed
    model: str  #: the word by which this project calls that model, with its encodings after a plus
    data: str  #: the word by which this project calls the data set
    metric: str  #: the metric
    mean: float | None  #: the printed mean, in the printed unit (shares in percent), or :obj:`None`
    deviation: float | None  #: the printed deviation, if there is one
    note: str  #: what stands in the cell instead of a number, or what is known to be wrong with it


@cache
def list_paper_tables() -> Sequence[str]:
    return tuple(sorted(entry.name.removesuffix(".csv") for entry in _FOLDER.iterdir()))


@cache
def read_paper_numbers(table: str) -> Sequence[PaperNumber]:
    r"""Reads the numbers of one table, in the order of the paper."""
    if table not in list_paper_tables():
        raise ValueError(
            f"Expected a table of the paper, one of {', '.join(list_paper_tables())} "
            f"(got {table!r})"
        )
    text = (_FOLDER / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(
        PaperNumber(
            *(row["table"], row["row"], row["model"], row["data"], row["metric"]),
            float(row["mean"]) if row["mean"] else None,
            float(row["deviation"]) if row["deviation"] else None,
            row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def find_paper_number(suite: str, data: str, model: str, metric: str) -> PaperNumber | None:
    numbers = read_paper_numbers(suite) if suite in list_paper_tables() else ()
    wanted = (data, model, metric)
    return next((n for n in numbers if (n.data, n.model, n.metric) == wanted), None)


@dataclass(frozen=True)
class MetricScale:
    r"""How a metric is printed."""

    label: str  #: the short name used in tables
    higher_is_better: bool  #: the direction in which it improves
    #: what a stored value is multiplied with; 100 for shares, which are printed in percent
    factor: float
    #: decimals of a fixed-point number, or :obj:`None` for errors that span powers of ten: four
    #: decimals, and the scientific form below 0.01
    digits: int | None

    @property
    def arrow(self) -> str:
        return "↑" if self.higher_is_better else "↓"

    def best(self, values: Iterable[float]) -> float | None:
        return (max if self.higher_is_better else min)(values, default=None)

    def text(self, value: float) -> str:
        r"""Prints a value that already has the table's unit."""
        if self.digits is None:
            return f"{value:.4f}" if abs(value) >= 0.01 else f"{value:.2e}"
        return f"{value:.{self.digits}f}"

    def text_of_deviation(self, deviation: float, mean: float) -> str:
        r"""Prints a deviation as its mean is printed, so that the two can be compared by eye."""
        if self.digits is None and abs(mean) >= 0.01 and deviation >= 0.00005:
            return f"{deviation:.4f}"
        return self.text(deviation)

    def text_with_deviation(self, mean: float, deviation: float | None) -> str:
        if deviation is None:
            return self.text(mean)
        return f"{self.text(mean)} ± {self.text_of_deviation(deviation, mean)}"


SCALES = {
    "accuracy": MetricScale("Acc", True, 100, 2),
    "roc_auc": MetricScale("AUC", True, 100, 2),
    "average_precision": MetricScale("AP", True, 100, 2),
    "mae": MetricScale("MAE", False, 1, 4),
    "mse": MetricScale("MSE", False, 1, None),
    "log10_mse": MetricScale("log10 MSE", False, 1, 4),
    "training_ms": MetricScale("training ms", False, 1, 2),
    "inference_ms": MetricScale("inference ms", False, 1, 2),
}


def scale_of(metric: str) -> MetricScale:
    r"""Returns how a metric is printed; an unknown one in four decimals, lower being better."""
    return SCALES.get(metric, MetricScale(metric, False, 1, 4))
