"""Runs a sweep on Ray Tune: every trial is one or more run folders."""

from __future__ import annotations

from pathlib import Path

from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.run import RunInterrupted
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.data_seal import seal_data
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import to_yaml
from torch_grama.runs.words import format_count
from torch_grama.search.ray_session import (
    check_address,
    count_cores,
    ray_session,
    set_environment,
)
from torch_grama.search.space import Space, read_space
from torch_grama.search.space_check import CheckedSpace, check_space
from torch_grama.search.sweep_progress import SweepReport, SweepReporter, build_sweep_reporter
from torch_grama.search.sweep_result import SweepResult
from torch_grama.training.process_state import SignalWatch

SPACE = "space.yaml"


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
    if resume:
        _check_same(checked, folder)
    set_environment(address)
    from torch_grama.search.sweep_session import SweepSession  # loads Ray

    folder.mkdir(parents=True, exist_ok=True)
    reporter = build_sweep_reporter(report)
    with RunFolder(folder).lock():
        write_atomically(folder / SPACE, to_yaml(checked.space.to_dict()).encode())
        seal_data(folder, checked.values)
        sweep = SweepSession(checked, folder, reporter)
        if retry_failed:
            sweep.forget_failures()
        try:
            if sweep.find_missing():
                # watched once Ray runs, which sets a handler of its own
                with ray_session(address) as there, SignalWatch() as watch:
                    # raising inside Ray's compiled parts would break them: it is asked in between
                    sweep.run(there, lambda: _obey(watch, folder))
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
    elif folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise RunError(f"'{folder}' is not empty and holds no sweep: choose another with `--out`")


def _check_same(checked: CheckedSpace, folder: Path) -> None:
    before, space = read_space(folder / SPACE), checked.space
    seal_data(folder, checked.values)
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


def _obey(watch: SignalWatch, folder: Path) -> None:
    if watch.received is not None:
        raise SweepInterrupted(folder, 128 + watch.received)
