"""Options that every model takes, whatever its own constructor takes."""

from __future__ import annotations

from typing import Literal

from torch.nn import Module

from torch_grama.baselines.graph_head import choose_pooling
from torch_grama.experiments.constructor_options import ConstructorOption, constructor_options
from torch_grama.training.input_stage import InputStage

Pooling = Literal["mean", "sum", "max", "sum-max-mean"]


def apply_shared_options(
    model: Module, *, pooling: Pooling = "mean", input_dropout: float = 0.0
) -> Module:
    r"""Gives a model that has just been built the options that all models have.

    Args:
        model (Module): The model.
        pooling (str, optional): What the readout of a graph takes of its nodes.
            (default: :obj:`"mean"`)
        input_dropout (float, optional): Dropout of the node features, before the model.
            (default: :obj:`0.0`)

    Raises:
        ValueError: A value cannot be.
    """
    if pooling != "mean":
        choose_pooling(model, pooling)
    return InputStage(model, input_dropout=input_dropout) if input_dropout else model


def shared_options() -> dict[str, ConstructorOption]:
    r"""Returns the options, with their types and defaults."""
    return constructor_options(apply_shared_options, skip=["model"])
