"""Measures a trained model, and lets it predict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

import torch_grama
from torch_grama.nn.padding import PaddingError
from torch_grama.training.captured_step import pays, plan_forward
from torch_grama.training.checkpoint_file import (
    VERSION,
    Checkpoint,
    CheckpointError,
    read_checkpoint,
)
from torch_grama.training.graph_batch import GraphBatch
from torch_grama.training.loaders import EpochLoader, GraphBatches
from torch_grama.training.task import GraphTask
from torch_grama.training.trainer_settings import TrainerSettings


def evaluate(
    task: GraphTask, loader: Iterable[GraphBatch], *, device: torch.device | None = None
) -> dict[str, float]:
    r"""Loss and metric of a model over all targets of a loader.

    Args:
        task (GraphTask): The model, with the weights to measure.
        loader (iterable of GraphBatch): What
            :func:`~torch_grama.training.evaluation_loader` returns.
        device (torch.device, optional): Where to run. (default: where the model is)

    Returns:
        dict: The values under ``"loss"`` and the name of the metric.
    """
    with _evaluating(task, device) as place:
        task.on_validation_epoch_start()
        for out, y, weight in _outputs(task, loader, place):
            task.judge(out, y, weight)
        loss, value = task.read_validation()
    return {"loss": loss, task.metric.name: value}


def predict(
    task: GraphTask, loader: Iterable[GraphBatch], *, device: torch.device | None = None
) -> Tensor:
    r"""The raw outputs of a model, in the order of the loader.

    Args:
        task (GraphTask): The model, with the weights to use.
        loader (iterable of GraphBatch): What :func:`~torch_grama.training.prediction_loader` or
            :func:`~torch_grama.training.evaluation_loader` returns; of the latter, only rows with
            targets are predicted.
        device (torch.device, optional): Where to run. (default: where the model is)

    Returns:
        Tensor: One row per node or graph, on the CPU: logits of classes or labels, or quantities.
    """
    with _evaluating(task, device) as place:
        parts = [out.float().cpu() for out, _, _ in _outputs(task, loader, place)]
    return torch.cat(parts)


def load_weights(
    task: GraphTask, checkpoint: str | Path | Checkpoint, path: str | Path | None = None
) -> None:
    r"""Loads the weights of a checkpoint, best or last.

    Args:
        task (GraphTask): The task that gets them.
        checkpoint (str, Path or dict): The file, or what was read from it.
        path (str or Path, optional): The file, for the message. (default: :obj:`checkpoint`)

    Raises:
        CheckpointError: If the file is damaged, of another model, or of a version whose weights
            do not fit.
    """
    if isinstance(checkpoint, str | Path):
        path = checkpoint
        checkpoint = read_checkpoint(Path(checkpoint))
    weights = checkpoint.get("state_dict")
    if not isinstance(weights, dict):
        raise CheckpointError(f"Expected weights in '{path}' (got a checkpoint without any)")
    try:
        task.load_state_dict(weights)
    except RuntimeError as error:
        version = str(checkpoint.get(VERSION, "0.1"))
        if version != torch_grama.__version__:
            raise CheckpointError(
                f"Expected weights of version {torch_grama.__version__} in '{path}' (got those of "
                f"version {version}, whose {type(task.model).__name__} was another); train again, "
                f"or install torch-grama {version}"
            ) from error
        raise CheckpointError(
            f"Expected weights of {type(task.model).__name__} with the same settings in '{path}' "
            f"(got others: {' '.join(str(error).split())[:300]})"
        ) from error


def choose_device(settings: TrainerSettings, training: bool = False) -> torch.device:
    r"""The device that settings stand for on this machine.

    Args:
        settings (TrainerSettings): With the word for it.
        training (bool, optional): Whether a model is to be trained there, not only to answer, which
            it does in float32. (default: :obj:`False`)

    Raises:
        ValueError: If it is not there, or cannot train in the precision of the settings.
    """
    wanted = settings.accelerator
    found = "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"
    if wanted in ("gpu", "cuda") and found == "cpu":
        raise ValueError(
            f"Expected a device for trainer.accelerator='{wanted}' (got none on this machine); set "
            "it to 'auto' or 'cpu'"
        )
    if training and settings.precision == "16" and found == "cpu":
        raise ValueError(
            "Expected 'trainer.precision' of '32' or 'bf16' on a CPU (got '16'); set it to 'bf16'"
        )
    return torch.device(found, 0) if found == "cuda" else torch.device(found)


def initialize_lazily(task: GraphTask, batch: GraphBatch) -> None:
    r"""Runs a model once if parameters take their size from the first input."""
    if any(is_lazy(parameter) for parameter in task.model.parameters()):
        with _evaluating(task, None) as place:
            task(batch.to(place))


@contextmanager
def _evaluating(task: GraphTask, device: torch.device | None) -> Iterator[torch.device]:
    """Switches to evaluation on a device, and back to the mode before."""
    modes = [(module, module.training) for module in task.modules()]
    if device is not None:
        task.to(device)
    task.eval()
    try:
        with torch.no_grad():
            yield next((p.device for p in task.parameters()), torch.device("cpu"))
    finally:
        for module, training in modes:
            module.training = training


def _outputs(
    task: GraphTask, loader: Iterable[GraphBatch], device: torch.device
) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """The outputs of each batch, the targets and what they count; recorded where that pays."""
    graphs = loader.source if isinstance(loader, EpochLoader) else None
    if isinstance(graphs, GraphBatches):
        graphs.place(device)
        if pays(device, len(graphs)) and graphs.pack.device == device:
            captured = None
            with suppress(PaddingError):
                captured = plan_forward(task, graphs)
            if captured is not None:
                yield from map(captured.run, captured.source.batches(0, 0))
                return
    for batch in loader:
        moved = batch.to(device)
        yield moved.select(task(moved)), moved.y, moved.weight
