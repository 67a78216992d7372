"""The best weights of a run in a form that others can load."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.datasets.task_data import FeatureEncoding
from torch_grama.experiments.catalogue import find_model
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.finished_run import WEIGHTS, LoadedRun, load_run, pack_weights
from torch_grama.experiments.models import count_parameters
from torch_grama.nn.arguments import choose
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import CONFIG, FACTS, RunError
from torch_grama.runs.words import format_count, format_metric

FORMATS = {
    "safetensors": "the weights, to be loaded into the same model",
    "pt2": "a program of torch.export, which runs without this library",
}
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
    choose("format", format, FORMATS)
    run = load_run(folder)
    target = run.folder.path / f"export-{format}" if out is None else Path(out)
    if (target / CONFIG).exists() and not (target / "README.md").exists():
        raise RunError(f"'{target}' holds a run: choose another folder with `--out`")
    target.mkdir(parents=True, exist_ok=True)
    if format == "safetensors":
        path = target / WEIGHTS
        write_atomically(path, pack_weights(run))
        for name in (CONFIG, FACTS):
            shutil.copyfile(run.folder.path / name, target / name)
        written = [path, target / CONFIG, target / FACTS]
    else:
        path = target / PROGRAM
        program = io.BytesIO()  # torch ends the process where a disk is full
        torch.export.save(_trace(run.task.model, run.facts), program)
        write_atomically(path, program.getvalue())
        shutil.copyfile(run.folder.path / FACTS, target / FACTS)
        written = [path, target / FACTS]
    card = target / "README.md"
    write_atomically(card, _card(run, format, path.name).encode())
    return [*written, card]


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
        "x": _features(
            facts.node_encoding, (_NODES, facts.seq_len) if facts.seq_len else (_NODES,)
        ),
        "edge_index": torch.randint(_NODES, (2, _EDGES), generator=generator),
    }
    if facts.has_edge_weight:
        inputs["edge_weight"] = torch.ones(_EDGES)
    if facts.edge_encoding.kind != "none":
        inputs["edge_attr"] = _features(facts.edge_encoding, (_EDGES,))
    if facts.pe_channels:
        inputs["pe"] = torch.ones(_NODES, facts.pe_channels)
    return inputs


def _features(encoding: FeatureEncoding, rows: tuple[int, ...]) -> Tensor:
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
        lines.append(f"- classes, in the order of the outputs: {', '.join(facts.class_names)}")
    if facts.feature_names:
        lines.append(f"- node features, in order: {', '.join(facts.feature_names)}")
    lines += _columns_of(facts)
    if run.folder.is_finished:
        result = Result.load(run.folder.result)
        test = "not read" if result.test is None else format_metric(result.test)
        lines.append(f"- {result.metric}: validation {format_metric(result.val)}, test {test}")
        lines.append(
            f"- seed {result.seed}, {format_count(result.epochs, 'epoch')}, best "
            f"{result.best_epoch}"
        )
    call = ", ".join(f"{name}={name}" for name in example_inputs(facts))
    if format == "safetensors":
        code = [
            "from torch_grama.experiments import load_exported",
            "",
            'model = load_exported("path of this folder")',
            f"out = model({call})",
        ]
    else:
        code = [
            "import torch",
            "",
            f'program = torch.export.load("{file}").module()',
            f"out = program({call})",
        ]
    lines += ["", "## Use", "", "```python", *code, "```"]
    if facts.form is not None and format == "safetensors":
        lines += ["", "For tables as those trained on, missing cells and words included:", ""]
        lines += ["```bash", "grama predict FOLDER --data NEW_FOLDER --out predictions.csv", "```"]
    if format == "pt2":
        lines += ["", "The program takes one graph at a time, of any number of nodes and edges."]
    return "\n".join(lines) + "\n"
