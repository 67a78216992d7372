"""One configuration into one run folder; the only room that knows models and data sets by name."""

from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.config import (
    ConfigError,
    DataConfig,
    ModelConfig,
    RunConfig,
    TaskConfig,
)
from torch_grama.experiments.finished_run import evaluate_run, export_run, load_exported, load_run
from torch_grama.experiments.folds import resume_folds, run_folds
from torch_grama.experiments.models import build_model, list_models
from torch_grama.experiments.predictions import Predictions, predict_run
from torch_grama.experiments.run import RunInterrupted, load_config, run_experiment
from torch_grama.experiments.settings import make_config
from torch_grama.runs.result import Result
from torch_grama.runs.run_files import describe_run
from torch_grama.runs.run_folder import RunError

__all__ = [
    "MODELS",
    "ConfigError",
    "DataConfig",
    "ModelConfig",
    "Predictions",
    "Result",
    "RunConfig",
    "RunError",
    "RunInterrupted",
    "TaskConfig",
    "build_model",
    "describe_run",
    "evaluate_run",
    "export_run",
    "list_models",
    "load_config",
    "load_exported",
    "load_run",
    "make_config",
    "predict_run",
    "resume_folds",
    "run_experiment",
    "run_folds",
]
