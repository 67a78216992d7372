"""One configuration into one run folder."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.storage import Report
from torch_grama.experiments.assembly import assemble_model, measure_scales
from torch_grama.experiments.catalogue import DEFAULT_MODEL, MODELS, canonical_name
from torch_grama.experiments.coefficient_callback import CoefficientCallback
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.environment import describe_environment, is_older
from torch_grama.experiments.models import count_parameters
from torch_grama.experiments.settings import ENVIRONMENT, check_settings, flatten, read_sections
from torch_grama.experiments.trivial_references import trivial_references
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_files import name_model
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.runs.safe_files import to_yaml
from torch_grama.training import (
    FitOutcome,
    GraphDataModule,
    GraphTask,
    Reporter,
    balanced_class_weights,
    evaluate,
    evaluation_loader,
    fit,
)
from torch_grama.training.evaluate import choose_device
from torch_grama.training.origin import Origin, compare_settings, hash_data
from torch_grama.training.progress import ReportName

# Numbers in the output of a layer up to which a second thread wins next to nothing, and loses much
# where the cores have other work.
_SMALL = 1 << 17
_THREADS_AT_START = torch.get_num_threads()


class RunInterrupted(Exception):
    r"""A run was asked to stop; it saved its state and can be resumed, or is finished.

    Attributes:
        folder: The run.
        exit_code: What a command exits with: 128 plus the number of the signal.
    """

    def __init__(self, folder: Path, exit_code: int, is_finished: bool = False) -> None:
        super().__init__(
            f"Interrupted in its last epoch, the run '{folder}' is finished."
            if is_finished
            else f"The run was interrupted; go on with `grama train --resume {folder}`."
        )
        self.folder = folder
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[RunInterrupted], tuple[Path, int], dict[str, object]]:
        # an exception is rebuilt from its message otherwise, which cannot cross processes
        return type(self), (self.folder, self.exit_code), {"args": self.args}


def run_experiment(
    config: RunConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    test: bool | None = None,
    report: ReportName | Reporter = "auto",
    data: GraphTaskData | None = None,
    data_report: Report | None = None,
    log_coefficients: bool = True,
) -> Result:
    r"""Trains one model on one data set, evaluates it once, and stores the result.

    Args:
        config (RunConfig): All settings.
        folder (str or Path): The folder of the run; made, unless the run is resumed.
        resume (bool, optional): Go on with the unfinished run in the folder; a finished one is
            read. (default: :obj:`False`)
        test (bool, optional): Whether the test part is read at the end. (default: what the
            configuration says)
        report (str or Reporter, optional): ``"auto"``, ``"rich"``, ``"plain"``, ``"quiet"``,
            ``"json"`` or your own reporter. (default: :obj:`"auto"`)
        data (GraphTaskData, optional): The data set of the configuration, if it is loaded
            already. (default: :obj:`None`)
        data_report (callable, optional): Told while data is loaded. (default: :obj:`None`)
        log_coefficients (bool, optional): Whether a GRAMA model's coefficients are written to
            ``coefficients.jsonl`` as it trains. (default: :obj:`True`)

    Returns:
        The result, which is in the folder too.

    Raises:
        ConfigError: A setting cannot be.
        DatasetError: The data is not there or cannot be used.
        RunError: The folder is not usable, or its run was started with other settings or data.
        RunInterrupted: The run was asked to stop; if that was in its last epoch, its result is
            there.
    """
    if test is not None:
        config = dataclasses.replace(config, test=test)
    run = RunFolder(folder)
    if resume:
        run.check()
        before = load_config(run.path)
        compare_settings(before.to_settings(), config.to_settings(), run.path)
        if run.is_finished:
            return Result.load(run.result)
    else:
        run.make()
    with run.lock(), ExitStack() as during_run:
        if data is None:
            data = load_data(config.data, data_report)
        facts = DataFacts.of(data)
        # what cannot be is told before a run exists
        task = build_task(config, facts, data)
        settings = dataclasses.replace(config.trainer, seed=config.seed)
        try:
            device = choose_device(settings)
            module = GraphDataModule(data, config.data.fold, settings)
            num_nodes = module.example().num_nodes
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if device.type == "cpu":
            during_run.enter_context(threads_for(num_nodes, config.model.hidden_channels))
        if not run.has_state:  # nothing of it depends on the data yet
            facts.save(run.facts)
        if not resume or before != config:
            save_config(config, run.config)
        watchers = []
        if log_coefficients and CoefficientCallback.fits(task.model):
            watchers.append(CoefficientCallback(run.path, settings.max_epochs))
        try:
            outcome = fit(
                task,
                module,
                run.path,
                resume=resume,
                report=report,
                callbacks=watchers,
                origin=Origin(
                    config.to_settings(), hash_data(data, config.data.fold), facts.fingerprint()
                ),
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if resume:
            facts.save(run.facts)  # those of the checkpoint, whatever was there
        if not outcome.is_finished:
            raise RunInterrupted(run.path, outcome.exit_code)
        if not outcome.best_epoch:
            raise RunError(
                f"Validation {outcome.metric} of '{run.path}' was never a number, so that no epoch "
                f"could be selected and the run is not finished: train again with a lower learning "
                f"rate or another metric; `grama predict` and `grama export` take its last weights"
            )
        result = _conclude(config, task, data, outcome)
        result.save(run.result)
    if outcome.signal is not None:
        raise RunInterrupted(run.path, outcome.exit_code, is_finished=True)
    return result


def build_task(config: RunConfig, facts: DataFacts, data: GraphTaskData | None = None) -> GraphTask:
    r"""Builds the model of a configuration with its loss and metric, from the seed; scales and
    balanced class weights are measured on the data.
    """
    torch.manual_seed(config.seed)
    model = assemble_model(
        config.model, facts, facts.num_outputs, standardize=config.data.standardize
    )
    if config.data.standardize and data is not None:
        measure_scales(model, data, config.data.fold)
    weights = config.task.class_weights
    try:
        if weights == "balanced":
            counted = None if data is None else balanced_class_weights(data, config.data.fold)
        else:
            counted = None if weights is None else torch.tensor(weights)
        task = GraphTask(
            model,
            facts.kind,
            facts.metric,
            facts.num_outputs,
            config.optimizer,
            config.schedule,
            loss=config.task.loss,
            class_weights=counted,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    task.title = name_model(config.model.name, config.model.options)
    return task


def save_config(config: RunConfig, path: Path) -> None:
    r"""Writes a configuration, and where it runs, as YAML."""
    where = {ENVIRONMENT: dataclasses.asdict(describe_environment())}
    write_atomically(path, to_yaml(config.to_dict() | where).encode())


def load_config(folder: str | Path, changes: Mapping[str, object] | None = None) -> RunConfig:
    r"""Reads the configuration of a run.

    Args:
        folder (str or Path): The folder of the run, or a file that was saved.
        changes (mapping, optional): Settings that win over it, under dotted names.
            (default: none)

    Raises:
        RunError: There is no run, or its model is that of an earlier version.
        ConfigError: Its configuration was changed into something that cannot be.
    """
    path = Path(folder)
    if not path.is_file():
        run = RunFolder(folder)
        run.check()
        path = run.config
    content = read_sections(path)
    settings = flatten(content)
    environment = content.get(ENVIRONMENT)
    if not isinstance(environment, dict):
        raise RunError(
            f"'{path}' was cut short (its last section, '{ENVIRONMENT}', is missing): restore it, "
            f"or start a new run"
        )
    _refuse_old(path, environment, canonical_name(str(settings.get("model.name", DEFAULT_MODEL))))
    layers = ((f"in '{path}'", settings), ("on the command line", changes or {}))
    return RunConfig.from_settings(check_settings(*layers))


def _refuse_old(path: Path, environment: Mapping[str, object], model: str) -> None:
    """Weights and settings of a model that has changed since are not those of this version."""
    versions = environment.get("versions")
    version = str(versions.get("torch_grama", "")) if isinstance(versions, dict) else ""
    changed_in = MODELS[model].changed_in if model in MODELS else ""
    if version and changed_in and is_older(version, changed_in):
        raise RunError(
            f"'{path}' was made by version {version}, whose model '{model}' was another: train it "
            f"again, or install torch-grama {version}"
        )


def _conclude(
    config: RunConfig, task: GraphTask, data: GraphTaskData, outcome: FitOutcome
) -> Result:
    losses: dict[str, float] = {}
    trivial: dict[str, float] = {}
    test: float | None = None
    if config.test and _has_test_part(data, config.data.fold):
        loader = evaluation_loader(data, config.data.fold, "test", config.trainer)
        values = evaluate(task, loader, device=choose_device(config.trainer))
        test, losses["test"] = values[data.metric.name], values["loss"]
        trivial = trivial_references(data, config.data.fold)
    environment = describe_environment()
    return Result(
        data=config.data.name,
        model=config.model.name,
        metric=data.metric.name,
        higher_is_better=data.metric.higher_is_better,
        val=outcome.best_value,
        test=test,
        best_epoch=outcome.best_epoch,
        epochs=outcome.epochs,
        seed=config.seed,
        fold=config.data.fold,
        parameters=count_parameters(task.model),
        seconds=outcome.seconds,
        stop_reason=outcome.stop_reason,
        trivial=trivial,
        losses=losses,
        versions=environment.versions,
        hardware=environment.hardware,
        revision=environment.revision,
        changes=outcome.changes,
    )


def _has_test_part(data: GraphTaskData, fold: int) -> bool:
    part = data.folds[fold].test
    return bool(part.any()) if part.dtype == torch.bool else part.numel() > 0


@contextmanager
def threads_for(num_nodes: int, channels: int) -> Iterator[None]:
    r"""Computes with one thread where layers are small, unless ``OMP_NUM_THREADS`` or
    ``torch.set_num_threads`` has said how many; afterwards with as many as before.
    """
    before = torch.get_num_threads()
    is_free = before == _THREADS_AT_START and "OMP_NUM_THREADS" not in os.environ
    if is_free and num_nodes * channels <= _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
