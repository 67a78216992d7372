"""Trains any model on any task: settings, loop, checkpoints, evaluation."""

from torch_grama.runs.run_folder import RunFolder
from torch_grama.training.checkpoint_file import CheckpointError, read_checkpoint
from torch_grama.training.data_module import GraphDataModule, evaluation_loader, prediction_loader
from torch_grama.training.evaluate import choose_device, evaluate, load_weights, predict
from torch_grama.training.fit import FitOutcome, fit
from torch_grama.training.graph_batch import GraphBatch
from torch_grama.training.optimizer import OptimizerSettings, ScheduleSettings
from torch_grama.training.progress import EpochReport, FitStart, Reporter
from torch_grama.training.scores import balanced_class_weights, build_loss, build_metric
from torch_grama.training.task import GraphTask, NonFiniteLossError
from torch_grama.training.trainer_settings import TrainerSettings

__all__ = [
    "CheckpointError",
    "EpochReport",
    "FitOutcome",
    "FitStart",
    "GraphBatch",
    "GraphDataModule",
    "GraphTask",
    "NonFiniteLossError",
    "OptimizerSettings",
    "Reporter",
    "RunFolder",
    "ScheduleSettings",
    "TrainerSettings",
    "balanced_class_weights",
    "build_loss",
    "build_metric",
    "choose_device",
    "evaluate",
    "evaluation_loader",
    "fit",
    "load_weights",
    "predict",
    "prediction_loader",
    "read_checkpoint",
]
