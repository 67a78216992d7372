"""The same settings on several folds, one run after the other."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_grama.datasets import GraphTaskData
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.data_facts import load_data
from torch_grama.experiments.run import load_config, run_experiment, save_config
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result, deviation, to_json
from torch_grama.runs.run_folder import FOLDS, RunError, RunFolder
from torch_grama.runs.safe_files import read_plain, seal_data
from torch_grama.runs.words import format_count
from torch_grama.training.checkpoint_file import hash_data
from torch_grama.training.progress import Reporter, ReportName

BASE = "base.yaml"
SUMMARY = "summary.json"


@dataclass(frozen=True)
class Summary:
    r"""What several runs found together."""

    results: tuple[Result, ...]  # the runs, in the order of their folds
    val: float  # mean over the validation parts
    val_deviation: float | None  # sample deviation; None for a single run
    test: float | None  # mean over the test parts; None if one was not looked at
    test_deviation: float | None  # likewise

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def parse_folds(text: str, available: int) -> list[int]:
    r"""Reads which of the available folds are asked for: ``all``, ``3``, ``0,2,5`` or ``0-4``."""
    if text.strip().lower() == "all":
        return list(range(available))
    folds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            folds += range(int(first), int(last or first) + 1)
    except ValueError as error:
        raise ConfigError(
            f"Expected '--folds' to be 'all' or numbers such as 0,2,5 or 0-4 (got '{text}')"
        ) from error
    wrong = [fold for fold in folds if not 0 <= fold < available]
    if wrong or not folds:
        raise ConfigError(
            f"Expected '--folds' between 0 and {available - 1}: the data has "
            f"{format_count(available, 'fold')} (got '{text}')"
        )
    return sorted(set(folds))


def run_folds(
    config: RunConfig,
    folder: str | Path,
    folds: Sequence[int],
    *,
    report: ReportName | Reporter = "auto",
    data: GraphTaskData | None = None,
) -> Summary:
    r"""Runs several folds into sub-folders; those that are finished are read, not run again.

    Args:
        config (RunConfig): The settings of all of them.
        folder (str or Path): The folder of the runs.
        folds (sequence of int): Which folds.
        report (str or Reporter, optional): See
            :func:`~torch_grama.experiments.run.run_experiment`. (default: :obj:`"auto"`)
        data (GraphTaskData, optional): The data set, if it is loaded already.
            (default: :obj:`None`)
    """
    folder = Path(folder)
    is_done = all(RunFolder(folder / f"fold-{fold}").is_finished for fold in folds)
    if data is None and not is_done:
        data = load_data(config.data)
    if not is_folds_folder(folder):
        RunFolder(folder).make()
        save_config(config, folder / BASE)
        write_atomically(folder / FOLDS, json.dumps({"folds": list(folds)}).encode())
    if data is not None and not is_done:
        seal_data(folder, hash_data(data, config.data.fold))
    results = []
    for fold in folds:
        path = folder / f"fold-{fold}"
        settings = dataclasses.replace(config, data=dataclasses.replace(config.data, fold=fold))
        resume = RunFolder(path).is_run
        results.append(run_experiment(settings, path, resume=resume, report=report, data=data))
    summary = summarize(results)
    write_atomically(folder / SUMMARY, f"{to_json(summary.to_dict(), 2)}\n".encode())
    return summary


def resume_folds(folder: str | Path, *, report: ReportName | Reporter = "auto") -> Summary:
    r"""Finishes the runs of a folder that :func:`run_folds` began.

    Args:
        folder (str or Path): The folder of the runs.
        report (str or Reporter, optional): As there. (default: :obj:`"auto"`)
    """
    folder = Path(folder)
    try:
        content = json.loads(read_plain(folder / FOLDS, 1_000_000))
        folds = [int(fold) for fold in content["folds"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(
            f"'{folder / FOLDS}' cannot be read ({error}): start the runs again"
        ) from error
    return run_folds(load_config(folder / BASE), folder, folds, report=report)


def is_folds_folder(folder: str | Path) -> bool:
    return (Path(folder) / FOLDS).is_file()


def summarize(results: Sequence[Result]) -> Summary:
    val = [result.val for result in results]
    test = [result.test for result in results if result.test is not None]
    complete = len(test) == len(results)
    return Summary(
        results=tuple(results),
        val=statistics.fmean(val),
        val_deviation=deviation(val),
        test=statistics.fmean(test) if complete else None,
        test_deviation=deviation(test) if complete else None,
    )
