"""Many runs, one after the other or side by side in processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children

from torch_grama.experiments.run import RunInterrupted
from torch_grama.reproduce.reproduction import PlannedRun, run_planned
from torch_grama.reproduce.worker_processes import prepare_workers
from torch_grama.runs.result import Result
from torch_grama.training.progress import ReportName

Outcome = tuple[PlannedRun, Result | Exception]


def run_one_by_one(runs: Sequence[PlannedRun], report: ReportName) -> Iterator[Outcome]:
    r"""Does the runs in this process, in their order; yields each with its result, or with what it
    failed of. If one was asked to stop, the others are not begun.
    """
    for run in runs:
        yield run, _attempt(run, report)


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
        with ProcessPoolExecutor(min(jobs, len(batch)), prepare_workers(), _use_one_thread) as pool:
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


def _attempt(run: PlannedRun, report: ReportName) -> Result | Exception:
    try:
        return run_planned(run, report)
    except RunInterrupted:
        raise
    except Exception as error:
        return error


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


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
