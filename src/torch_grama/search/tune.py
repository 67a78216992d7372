"""Runs a sweep on Ray Tune, of a space or of a row of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.run import RunInterrupted
from torch_grama.experiments.settings import known_options, mapping_of
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import seal_data, to_yaml
from torch_grama.runs.words import format_count
from torch_grama.search.ray_session import check_address, count_cores, ray_session, set_environment
from torch_grama.search.space import Repeat, Space, read_space
from torch_grama.search.space_check import check_space
from torch_grama.search.sweep_result import BEST, SweepReport, SweepReporter, SweepResult
from torch_grama.training.process_state import SignalWatch

SPACE = "space.yaml"
SWEEP = "sweep"
# What makes a row the row that it is.
_BACKBONE = ("model.backbone", "model.backbone_options")
_IDENTITY = {"data.name", "data.fold", "seed", "model.name", *_BACKBONE}
_PARTS_OF_DEPTH = {"model.seq_len", "model.num_blocks", "model.num_recurrences"}
_DEPTH = "model.num_layers"


class SweepInterrupted(RunInterrupted):
    r"""A sweep was asked to stop; it can be resumed.

    Attributes:
        folder: The sweep.
        exit_code: What a command exits with: 128 plus the number of the signal.
    """

    def __init__(self, folder: Path, exit_code: int) -> None:
        super().__init__(folder, exit_code)
        self.args = (f"The sweep was interrupted; go on with `grama sweep {folder} --resume`.",)


def run_sweep(
    space: Space,
    folder: str | Path,
    *,
    resume: bool = False,
    retry_failed: bool = False,
    address: str | None = None,
    report: SweepReport | SweepReporter = "auto",
    data_report: Report | None = None,
) -> SweepResult:
    r"""Searches a space, comparing on validation alone; the test part is not read.

    The folder receives ``space.yaml``, ``trials/<name>/`` with the run folders of each trial,
    ``sweep.csv`` with all trials, the best first, and ``best.yaml`` with the settings of the best
    one. A trial that fails is noted in its folder and in the table, and the sweep goes on; one
    whose worker dies goes on from its last checkpoint.

    Args:
        space (Space): What to search, and how.
        folder (str or Path): Where the sweep lies. On a cluster, a folder that all machines see.
        resume (bool, optional): Go on with the sweep in the folder: finished, stopped and failed
            trials are left as they are, unfinished runs are resumed. (default: :obj:`False`)
        retry_failed (bool, optional): When resuming, run failed trials again.
            (default: :obj:`False`)
        address (str, optional): Address of a Ray cluster; without one a local Ray is started and
            ended. (default: :obj:`None`)
        report (str or SweepReporter, optional): ``"auto"``, ``"rich"``, ``"plain"``, ``"quiet"``
            or something that is told. (default: :obj:`"auto"`)
        data_report (callable, optional): Told while data is loaded. (default: :obj:`None`)

    Returns:
        SweepResult: All trials, the best first.

    Raises:
        ConfigError: Something in the space cannot be; said before the first trial starts.
        DatasetError: The data is not there or cannot be used.
        RunError: The folder is not usable, or there is no cluster at the address.
        SweepInterrupted: The sweep was asked to stop.
    """
    folder = Path(folder).resolve()
    check_folder(folder, resume)
    if address is not None:
        check_address(address)
    elif space.resources.cpus_per_trial > count_cores():
        raise ConfigError(
            f"Expected at most {format_count(count_cores(), 'core')} a trial, which is what there "
            f"is (got {space.resources.cpus_per_trial:g}): lower `--cpus-per-trial`, or join a "
            f"cluster with `--ray-address`"
        )
    checked = check_space(space, data_report)
    folder.mkdir(parents=True, exist_ok=True)
    reporter = SweepReporter(report) if isinstance(report, str) else report
    with RunFolder(folder).lock():
        seal_data(folder, checked.values)
        if resume:
            _check_same(read_space(folder / SPACE), checked.space, folder)
        write_atomically(folder / SPACE, to_yaml(checked.space.to_dict()).encode())
        set_environment(address)
        from torch_grama.search.sweep_session import SweepSession  # loads Ray

        sweep = SweepSession(checked, folder, reporter, retry_failed)
        try:
            if sweep.find_missing():
                # watched once Ray runs, which sets a handler of its own
                with ray_session(address) as there, SignalWatch() as watch:

                    def obey() -> None:
                        if watch.received is not None:
                            raise SweepInterrupted(folder, 128 + watch.received)

                    # raising inside Ray's compiled parts would break them: it is asked in between
                    sweep.run(there, obey)
        finally:
            reporter.end()
            result = sweep.write()
    return result


def check_folder(folder: Path, resume: bool) -> None:
    r"""Makes sure that a sweep can begin in a folder, or go on there."""
    if resume:
        if not (folder / SPACE).is_file():
            raise RunError(
                f"There is no sweep in '{folder}' (it has no '{SPACE}'): leave `--resume` out to "
                f"begin one"
            )
    elif (folder / SPACE).is_file():
        raise RunError(
            f"'{folder}' holds a sweep: go on with `--resume`, or choose another folder with "
            f"`--out`"
        )
    elif RunFolder(folder).has_content:
        raise RunError(f"'{folder}' is not empty and holds no sweep: choose another with `--out`")


def _check_same(before: Space, space: Space, folder: Path) -> None:
    for name in sorted({*before.base, *space.base}):
        old, new = before.base.get(name), space.base.get(name)
        if old != new:
            raise ConfigError(
                f"Expected the base that the sweep in '{folder}' was started with (got '{name}' "
                f"{new!r} instead of {old!r}): begin another sweep with `--out`"
            )
    if before.repeat != space.repeat or set(before.domains) != set(space.domains):
        raise ConfigError(
            f"Expected the settings and repeats that the sweep in '{folder}' was started with; "
            f"values may be added when a sweep is resumed, settings may not: begin another with "
            f"`--out`"
        )


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
    best, place = folder / BEST, folder / SWEEP
    if best.is_file():
        return best
    if any(path.name != SWEEP for path in folder.glob("*/")):
        raise RunError(
            f"'{folder}' has runs that were not tuned: delete the folder, or name another place "
            f"with `--runs`"
        )
    narrowed = replace(narrow_space(space, settings), repeat=repeat)
    if not narrowed.domains:
        return None
    resume = (place / SPACE).is_file()
    result = run_sweep(narrowed, place, resume=resume, address=address, report=report)
    if result.best is None:
        raise RunError(
            f"No trial of '{place}' came to its end: each says why in its 'failure.json'; delete "
            f"the folder to begin again"
        )
    write_atomically(best, (place / BEST).read_bytes())
    return best


def narrow_space(space: Space, settings: Mapping[str, object]) -> Space:
    r"""Returns the part of a space that applies to one row.

    The settings of the row win over the base of the space, and what the space searches over both;
    but the row keeps its data, model and backbone, and what its model does not have is not
    searched.
    """
    known = known_options(str(settings["model.name"]))
    domains = {n: d for n, d in space.domains.items() if n in known and n not in _IDENTITY}
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
