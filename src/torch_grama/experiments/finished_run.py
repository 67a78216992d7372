"""What can be done with a run once it has weights: load it, measure it again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.run import build_task, load_config
from torch_grama.runs.run_folder import RunError, RunFolder
from torch_grama.training import GraphTask, evaluate, evaluation_loader, load_weights
from torch_grama.training.evaluate import choose_device
from torch_grama.training.fit import read_best
from torch_grama.training.origin import ORIGIN, Origin, hash_data

WEIGHTS = "model.safetensors"
"""What exported weights are called."""


@dataclass(frozen=True)
class LoadedRun:
    r"""A run with its best weights."""

    folder: RunFolder  # the run
    config: RunConfig  # its settings
    facts: DataFacts  # what its data is like
    task: GraphTask  # the model with the weights of the best epoch
    values: str = ""  # A hash of the data it was trained on; empty if that is not known


def load_run(folder: str | Path) -> LoadedRun:
    r"""Rebuilds the model of a run with its best weights; the data is not needed.

    Args:
        folder (str or Path): The folder of the run, or of a model exported as safetensors.

    Raises:
        RunError: There is no run, it has no weights yet, or exported ones are damaged.
        CheckpointError: The weights are damaged.
    """
    run = RunFolder(folder)
    config = load_config(folder)
    facts = DataFacts.load(run.facts)
    task = build_task(config, facts)
    exported = run.path / WEIGHTS
    own = Origin(config.to_settings(), facts=facts.fingerprint())
    if exported.is_file() and not run.best.exists():
        origin = _load_exported_weights(task, exported)
        own.follow({ORIGIN: origin}, run.path)
    else:
        weights, path = read_best(run)
        origin = weights.get(ORIGIN)
        # an edited setting is named before its weights fit no model
        own.follow({ORIGIN: origin}, run.path)
        load_weights(task, weights, path)
    task.eval()
    values = str(origin.get("values", "")) if isinstance(origin, dict) else ""
    return LoadedRun(run, config, facts, task, values)


def pack_weights(run: LoadedRun) -> bytes:
    r"""Writes the weights of a run as safetensors, with what they are made of and their hash."""
    from safetensors.torch import save

    weights = {name: value.contiguous() for name, value in run.task.model.state_dict().items()}
    origin = Origin(run.config.to_settings(), run.values, run.facts.fingerprint())
    told = json.dumps(origin.to_dict(), default=str)
    return save(weights, {"format": "pt", ORIGIN: told, "sha256": _hash_weights(weights)})


def _load_exported_weights(task: GraphTask, path: Path) -> object:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            told = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if told.get("sha256", now := _hash_weights(weights)) != now:
            raise ValueError("a number in it was changed")
        task.model.load_state_dict(weights)
        return json.loads(told.get(ORIGIN, "null"))
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"'{path}' cannot be loaded ({reason}): export the run again") from error


def _hash_weights(weights: dict[str, Tensor]) -> str:
    from safetensors.torch import save

    return hashlib.sha256(save(weights)).hexdigest()


def evaluate_run(
    folder: str | Path,
    split: Literal["train", "val", "test"] = "test",
    report: Report | None = None,
) -> dict[str, float]:
    r"""Measures the best weights of a run on one part of its data.

    Args:
        folder (str or Path): The folder of the run.
        split (str, optional): ``"train"``, ``"val"`` or ``"test"``. (default: :obj:`"test"`)
        report (callable, optional): Told while data is loaded. (default: :obj:`None`)

    Returns:
        The metric and the loss, by name.

    Raises:
        RunError: There is no run, it has no weights, or its data has changed.
        DatasetError: The data is gone.
    """
    run = load_run(folder)
    data = load_data(run.config.data, report)
    values = run.values and hash_data(data, run.config.data.fold)
    if DataFacts.of(data) != run.facts or values != run.values:
        raise RunError(
            f"The data '{data.name}' is not what the run '{run.folder.path}' was trained on: "
            f"restore it, or use `grama predict` for other data"
        )
    loader = evaluation_loader(data, run.config.data.fold, split, run.config.trainer)
    return evaluate(run.task, loader, device=choose_device(run.config.trainer))
