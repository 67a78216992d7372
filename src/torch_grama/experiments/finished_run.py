"""What can be done with a run once it has weights: load it, measure it again, export it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.datasets.storage import Report
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData
from torch_grama.experiments.catalogue import find_model
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import count_parameters
from torch_grama.experiments.run import build_task, load_config
from torch_grama.nn.arguments import choose
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import CONFIG, FACTS, RunError, RunFolder
from torch_grama.runs.words import format_count, format_metric
from torch_grama.training import GraphTask, evaluate, evaluation_loader, load_weights
from torch_grama.training.checkpoint_file import ORIGIN, Origin, hash_data
from torch_grama.training.evaluate import choose_device
from torch_grama.training.fit import read_best
from torch_grama.training.process_state import keep_random_state

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


@keep_random_state()
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
        if not run.is_finished:
            text = f"'{folder}' is unfinished: its best weights so far are used"
            warnings.warn(text, stacklevel=3)
    task.eval()
    values = str(origin.get("values", "")) if isinstance(origin, dict) else ""
    return LoadedRun(run, config, facts, task, values)


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
    data = load_own_data(run, report)
    loader = evaluation_loader(data, run.config.data.fold, split, run.config.trainer)
    return evaluate(run.task, loader, device=choose_device(run.config.trainer))


def load_own_data(run: LoadedRun, report: Report | None = None) -> GraphTaskData:
    r"""Loads the data that a run was trained on; raises a :class:`RunError` if it has changed."""
    data = load_data(run.config.data, report)
    values = run.values and hash_data(data, run.config.data.fold)
    if DataFacts.of(data) != run.facts or values != run.values:
        raise RunError(
            f"The data '{data.name}' is not what the run '{run.folder.path}' was trained on: "
            f"restore it, or use `grama predict` for other data"
        )
    return data


PROGRAM = "model.pt2"
# Sizes of the graph that a program is traced on; no two are equal, and none is special.
_NODES, _EDGES = 7, 11
# Columns that a card describes.
_LISTED = 50


def export_run(
    folder: str | Path,
    format: Literal["safetensors", "pt2"] = "safetensors",
    out: str | Path | None = None,
) -> list[Path]:
    r"""Writes the best weights of a run together with a card that says what they are.

    Args:
        folder (str or Path): The folder of the run.
        format (str, optional): ``"safetensors"`` (weights, loaded by :func:`load_exported`) or
            ``"pt2"`` (a program for one graph of any size, loaded by ``torch.export.load``).
            (default: :obj:`"safetensors"`)
        out (str or Path, optional): The folder to write to. (default: a folder in the run)

    Returns:
        The files that were written.

    Raises:
        RunError: There is no run, it has no weights, or its model cannot be exported.
    """
    file = choose("format", format, {"safetensors": WEIGHTS, "pt2": PROGRAM})
    run = load_run(folder)
    target = run.folder.path / f"export-{format}" if out is None else Path(out)
    if (target / CONFIG).exists() and not (target / "README.md").exists():
        raise RunError(f"'{target}' holds a run: choose another folder with `--out`")
    target.mkdir(parents=True, exist_ok=True)
    if format == "safetensors":
        from safetensors.torch import save

        weights = {name: value.contiguous() for name, value in run.task.model.state_dict().items()}
        origin = Origin(run.config.to_settings(), run.values, run.facts.fingerprint())
        told = {ORIGIN: json.dumps(asdict(origin), default=str), "sha256": _hash_weights(weights)}
        write_atomically(target / file, save(weights, {"format": "pt", **told}))
    else:
        program = io.BytesIO()  # torch ends the process where a disk is full
        torch.export.save(_trace(run.task.model, run.facts), program)
        write_atomically(target / file, program.getvalue())
    beside = (CONFIG, FACTS) if format == "safetensors" else (FACTS,)
    for name in beside:
        shutil.copyfile(run.folder.path / name, target / name)
    write_atomically(target / "README.md", _card(run, format, file).encode())
    return [target / name for name in (file, *beside, "README.md")]


def load_exported(folder: str | Path) -> Module:
    r"""Loads a model that :func:`export_run` wrote as safetensors.

    Args:
        folder (str or Path): The folder that was written.

    Returns:
        The model with its input stage, ready to be called as ``model(x, edge_index, edge_weight,
        edge_attr, batch, batch_size, pe)``.

    Raises:
        RunError: Something is missing or was changed, or the weights belong to another model.
    """
    return load_run(folder).task.model


def example_inputs(facts: DataFacts) -> dict[str, Tensor]:
    r"""Returns a small graph of the form that a model takes, by the names of the arguments."""
    generator = torch.Generator().manual_seed(0)
    inputs = {
        "x": _features(facts.node_encoding, _NODES, *[facts.seq_len] * bool(facts.seq_len)),
        "edge_index": torch.randint(_NODES, (2, _EDGES), generator=generator),
    }
    if facts.has_edge_weight:
        inputs["edge_weight"] = torch.ones(_EDGES)
    if facts.edge_encoding.kind != "none":
        inputs["edge_attr"] = _features(facts.edge_encoding, _EDGES)
    if facts.pe_channels:
        inputs["pe"] = torch.ones(_NODES, facts.pe_channels)
    return inputs


def _features(encoding: FeatureEncoding, *rows: int) -> Tensor:
    dtype = torch.float if encoding.kind == "float" else torch.long
    return torch.zeros(*rows, encoding.num_columns, dtype=dtype)


def _trace(model: Module, facts: DataFacts) -> torch.export.ExportedProgram:
    inputs = example_inputs(facts)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes: dict[str, Mapping[int, object]] = {
        name: {1: edges} if name == "edge_index" else {0: edges if "edge" in name else nodes}
        for name in inputs
    }
    try:
        return torch.export.export(model, (), inputs, dynamic_shapes=shapes)
    except Exception as error:  # torch.export raises nearly every type on what it cannot trace
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error)
        raise RunError(
            f"The model cannot be turned into a program ({reason}): export it with `--format "
            f"safetensors`"
        ) from error


def _columns_of(facts: DataFacts) -> list[str]:
    """How the columns of the tables trained on became features."""
    if facts.form is None:
        return []
    weight = () if facts.form.weight is None else (facts.form.weight,)
    columns = (*facts.form.nodes, *facts.form.edges, *weight)
    lines = [f"- columns of the tables, as `form` in `{FACTS}` has them:"]
    for column in columns[:_LISTED]:
        text = f"  - {column.name}: {column.kind}"
        if column.kind == "words":
            text += f" {', '.join(column.values)}, one feature of 0 and 1 each"
        else:
            text += " in days since 1970-01-01" if column.kind == "date" else ""
            text += f", {column.fill:.6g} where it is missing"
            text += ", and a feature that is 1 there" if column.flag else ""
        lines.append(text)
    return [*lines, "  - ..."] if len(columns) > _LISTED else lines


def _card(run: LoadedRun, format: str, file: str) -> str:
    config, facts = run.config, run.facts
    entry = find_model(config.model.name)
    lines = [
        f"# {config.model.name} on {Path(config.data.name).name}",
        "",
        f"A model for {facts.level} {facts.kind}, trained with torch-grama.",
        "",
        f"- model: `{config.model.name}`: {entry.equation}",
        f"- reference: {entry.reference}",
        f"- parameters: {count_parameters(run.task.model):,}",
        f"- data: {config.data.name}, fold {config.data.fold}",
    ]
    if facts.class_names:
        lines.append(f"- outputs, in order: {', '.join(facts.class_names)}")
    if facts.feature_names:
        lines.append(f"- node features, in order: {', '.join(facts.feature_names)}")
    lines += _columns_of(facts)
    if run.folder.is_finished:
        result = Result.load(run.folder.result)
        test = "not read" if result.test is None else format_metric(result.test)
        lines += [
            f"- {result.metric}: validation {format_metric(result.val)}, test {test}",
            f"- seed {result.seed}, {format_count(result.epochs, 'epoch')}, best epoch "
            f"{result.best_epoch}",
        ]
    code = ["from torch_grama.experiments import load_exported", ""]
    code += ['model = load_exported("path of this folder")']
    if format == "pt2":
        code = ["import torch", "", f'model = torch.export.load("{file}").module()']
    call = ", ".join(f"{name}={name}" for name in example_inputs(facts))
    lines += ["", "## Use", "", "```python", *code, f"out = model({call})", "```"]
    if facts.form is not None and format == "safetensors":
        lines += ["", "For tables as those trained on, missing cells and words included:", ""]
        lines += ["```bash", "grama predict FOLDER --data NEW_FOLDER --out predictions.csv", "```"]
    if format == "pt2":
        lines += ["", "The program takes one graph at a time, of any number of nodes and edges."]
    return "\n".join(lines) + "\n"
