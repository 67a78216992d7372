"""One configuration into one run folder."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import platform
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import pytorch_lightning as pl
import torch

import torch_grama
from torch_grama.analysis import CoefficientLog
from torch_grama.analysis.block_analysis import find_grama
from torch_grama.datasets import GraphTaskData
from torch_grama.datasets.storage import Report
from torch_grama.experiments.catalogue import DEFAULT_MODEL, MODELS, canonical_name
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import assemble_model, count_parameters, measure_scales
from torch_grama.experiments.settings import ENVIRONMENT, check_settings, flatten, read_sections
from torch_grama.experiments.trivial_references import trivial_references
from torch_grama.nn.subnormals import flush_subnormals
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_files import name_model
from torch_grama.runs.run_folder import COEFFICIENTS, RunError, RunFolder
from torch_grama.runs.safe_files import FIRST_EPOCH, count_from_one, to_yaml
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
from torch_grama.training.checkpoint_file import Origin, compare_settings, hash_data
from torch_grama.training.evaluate import choose_device
from torch_grama.training.process_state import keep_random_state
from torch_grama.training.progress import ReportName

# Numbers in the output of a layer up to which a second thread wins next to nothing, and loses much
# where the cores have other work.
_SMALL = 1 << 17
_FAR = 0.02  # a share of the value: what rounding may change
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


@flush_subnormals()  # before torch starts its threads
@keep_random_state()
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
            device = choose_device(settings, training=True)
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
        if log_coefficients and find_grama(task.model) is not None:
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
    r"""Builds model, loss and metric from the seed; scales and weights are those of data."""
    torch.manual_seed(config.seed)
    model = assemble_model(
        config.model, facts, facts.num_outputs, standardize=config.data.standardize
    )
    if config.data.standardize and data is not None:
        measure_scales(model, data, config.data.fold)
    weights: Any = config.task.class_weights
    try:
        if weights == "balanced":
            weights = None if data is None else balanced_class_weights(data, config.data.fold)
        task = GraphTask(
            model,
            facts.kind,
            facts.metric,
            facts.num_outputs,
            config.optimizer,
            config.schedule,
            loss=config.task.loss,
            class_weights=weights,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    task.title = name_model(config.model.name, config.model.options)
    return task


def save_config(config: RunConfig, path: Path) -> None:
    r"""Writes a configuration, and where it runs, as YAML."""
    content = config.to_dict() | {ENVIRONMENT: describe_environment()}
    write_atomically(path, to_yaml(content).encode())


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
    made_by = str(versions.get("torch_grama", "")) if isinstance(versions, dict) else ""
    changed_in = MODELS[model].changed_in if model in MODELS else ""
    older, newer = ([int(n) for n in re.findall(r"\d+", v)[:3]] for v in (made_by, changed_in))
    if older and older < newer:
        raise RunError(
            f"'{path}' was made by version {made_by}, whose model '{model}' was another: train it "
            f"again, or install torch-grama {made_by}"
        )


def _validate_as_tested(
    config: RunConfig, task: GraphTask, data: GraphTaskData, outcome: FitOutcome
) -> float:
    r"""The best value on validation; of a model that was trained and judged in another precision
    that of its weights in float32, in which it is tested and predicts.
    """
    judged, precision = outcome.best_value, config.trainer.precision
    if precision == "32" or math.isnan(judged):
        return judged
    loader = evaluation_loader(data, config.data.fold, "val", config.trainer)
    value = evaluate(task, loader, device=choose_device(config.trainer))[data.metric.name]
    if not math.isclose(value, judged, rel_tol=_FAR):
        warnings.warn(
            f"The validation {data.metric.name} is {judged:.4g} in {precision}, in which the model "
            f"was trained, and {value:.4g} in float32, in which it is tested and predicts: train "
            f"with trainer.precision '32'",
            stacklevel=2,
        )
    return value


def _conclude(
    config: RunConfig, task: GraphTask, data: GraphTaskData, outcome: FitOutcome
) -> Result:
    losses: dict[str, float] = {}
    trivial: dict[str, float] = {}
    test: float | None = None
    part = data.folds[config.data.fold].test
    if config.test and (part.any() if part.dtype == torch.bool else part.numel()):
        loader = evaluation_loader(data, config.data.fold, "test", config.trainer)
        values = evaluate(task, loader, device=choose_device(config.trainer))
        test, losses["test"] = values[data.metric.name], values["loss"]
        trivial = trivial_references(data, config.data.fold)
    return Result(
        data=config.data.name,
        model=config.model.name,
        metric=data.metric.name,
        higher_is_better=data.metric.higher_is_better,
        val=_validate_as_tested(config, task, data, outcome),
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
        changes=outcome.changes,
        **describe_environment(),
    )


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


@functools.cache
def _code() -> tuple[dict[str, str], str | None]:
    """Versions, and the revision: many short runs would wait for git longer than they train."""
    versions = {"torch_grama": torch_grama.__version__, "python": platform.python_version()}
    for library in ("torch", "torch_geometric", "pytorch_lightning", "torchmetrics", "numpy"):
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions, find_revision(Path(torch_grama.__file__).parent)


def describe_environment() -> dict[str, Any]:
    r"""What a run depends on besides its configuration: ``versions`` of libraries, ``hardware`` in
    words, and the ``revision`` of the code, if it runs from a repository.
    """
    versions, revision = _code()
    hardware = {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        hardware["accelerator"] = ", ".join(names)
        hardware["cuda"] = str(torch.version.cuda)
    return {"versions": versions, "hardware": hardware, "revision": revision}


def find_revision(package: Path) -> str | None:
    r"""The revision of the repository that has a package's folder in ``src``, if there is one."""
    project = package.parents[1] if len(package.parents) > 1 else package
    if package.parent.name != "src" or not (project / ".git").exists():
        return None

    def ask(*words: str) -> str:
        result = subprocess.run(
            ["git", "-C", str(project), *words], capture_output=True, text=True, timeout=10
        )
        return result.stdout.strip() if result.returncode == 0 else ""

    try:
        revision = ask("rev-parse", "HEAD")
        changed = bool(ask("status", "--porcelain", "--untracked-files=no", "--", "src"))
    except (OSError, subprocess.TimeoutExpired):
        return None
    if not revision:
        return None
    return f"{revision} with changes" if changed else revision


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# Lines of a file, about; a long run leaves epochs out.
_MAX_LINES = 200


class CoefficientCallback(pl.Callback):
    r"""Writes a summary of the coefficients that validation computes anyway.

    The file has one object per line: ``epoch``, and ``blocks`` with the entries of
    :class:`~torch_grama.analysis.CoefficientSummary`. Of a run of more than 200 epochs every
    second, third and so on is written. A resumed run drops the lines of epochs that it runs again.
    """

    def __init__(self, folder: Path, max_epochs: int) -> None:
        self._path = folder / COEFFICIENTS
        self._stride = -(-max_epochs // _MAX_LINES)
        self._log: CoefficientLog | None = None
        self._stream: IO[str] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            _keep_lines_before(self._path, trainer.current_epoch)
            self._stream = self._path.open("a", encoding="utf-8")
            self._log = CoefficientLog(pl_module)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._log is not None and trainer.current_epoch % self._stride == 0:
            self._log.open()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._log is None or self._stream is None:
            return
        self._log.close()
        if trainer.current_epoch % self._stride != 0:
            return
        try:
            blocks = [dataclasses.asdict(block) for block in self._log.summary()]
        except ValueError:  # a coefficient that is no number: training will stop by itself
            return
        facts = {"epoch": trainer.current_epoch + 1, FIRST_EPOCH: 1, "blocks": blocks}
        self._stream.write(f"{json.dumps(facts, allow_nan=False)}\n")
        self._stream.flush()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        for part in (self._log, self._stream):
            if part is not None:
                part.close()
        self._log = self._stream = None


def _keep_lines_before(path: Path, epoch: int) -> None:
    r"""Drops lines after so many epochs, and one that was cut off."""
    kept = []
    if epoch > 0 and path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                facts = count_from_one(json.loads(line), "epoch")
                if facts["epoch"] > epoch:
                    break
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            kept.append(f"{json.dumps(facts)}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(kept).encode())
